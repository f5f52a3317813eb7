/* Tells, while a change form of occ.admin is open, that somebody else saved the object.

   Asks the address in the token's data attributes, with the version that the page shows as If-None-Match: no news is
   304 without a body. Waits in hidden tabs, stops when the form is sent, asks less often while it gets no answer. */
"use strict";
(() => {
  const SLOWEST = 300_000;

  const watch = (token) => {
    const { occStateUrl: url, occEvery: every } = token.dataset;
    const usual = Number(every) * 1000;
    let etag = token.dataset.occEtag;
    let pause = usual;
    let timer = null;
    let stopped = false;

    const notice = document.createElement("p");
    notice.className = "occ-notice";
    notice.setAttribute("role", "status");
    notice.setAttribute("aria-live", "polite");
    notice.hidden = true;
    token.form.prepend(notice);

    const later = () => {
      clearTimeout(timer);
      if (!stopped && !document.hidden) timer = setTimeout(ask, pause);
    };

    const ask = async () => {
      try {
        const answer = await fetch(url, {
          cache: "no-store",
          credentials: "same-origin",
          headers: { Accept: "application/json", "If-None-Match": etag },
          redirect: "error",
        });
        if (stopped) return;
        if (answer.status === 200) {
          notice.textContent = (await answer.json()).text;
          notice.hidden = false;
          etag = answer.headers.get("ETag");
        } else if (answer.status === 403 || answer.status === 404) {
          stopped = true;
        } else if (answer.status !== 304) {
          throw new Error(String(answer.status));
        }
        pause = usual;
      } catch {
        pause = Math.min(pause * 2, SLOWEST);
      }
      later();
    };

    token.form.addEventListener("submit", () => { stopped = true; clearTimeout(timer); });
    window.addEventListener("pageshow", (event) => { if (event.persisted) { stopped = false; ask(); } });
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : stopped || ask()));
    later();
  };

  const start = () => document.querySelectorAll("input[data-occ-state-url]").forEach(watch);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
