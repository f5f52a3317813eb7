/* The browsable API: every write of this page says which version of the row the page shows. */
(function ($) {
  "use strict";

  const tag = JSON.parse(document.getElementById("occ-etag").textContent);

  $(document).ajaxSend(function (event, request, settings) {
    const method = (settings.method || settings.type || "GET").toUpperCase();
    if (tag && ["PUT", "PATCH", "DELETE"].includes(method)) {
      request.setRequestHeader("If-Match", tag);
    }
  });
})(window.jQuery);
