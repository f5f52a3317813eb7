"""Clients of the API: GET, then PUT with If-Match; refused, they read again. And the login that they share."""

import random
import re

import httpx

from project.deployments.demo.events import EventLog
from project.deployments.demo.writers import changes
from project.deployments.demo.writers.base import Accepted, RetryingWriter, Target
from project.deployments.demo.writers.forms import forms_of

TIMEOUT_SECONDS = 30.0
STALE = {409, 412}


class RequestFailed(Exception):
    """The site answered with something that the writer cannot go on from."""

    def __init__(self, response: httpx.Response) -> None:
        request = response.request
        text = " ".join(re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", response.text, flags=re.DOTALL).split())
        super().__init__(f"{request.method} {request.url.path} answered {response.status_code}: {text:.200}")


def login(site: str, username: str, password: str) -> httpx.Client:
    """Return a client that is logged in, the way a person does it: through the admin's form.

    Raises:
        RequestFailed: the login was refused.
    """
    client = httpx.Client(base_url=site, timeout=TIMEOUT_SECONDS)
    try:
        page = client.get("/admin/login/")
        form = next(form for form in forms_of(page.text) if "password" in form.values)
        answer = client.post("/admin/login/", data={**form.values, "username": username, "password": password})
        if answer.status_code != 302:
            raise RequestFailed(answer)
    except BaseException:
        client.close()
        raise
    return client


class HttpClient(RetryingWriter):
    """Somebody's program: it knows the API and nothing else."""

    kind = "HTTP client"

    def __init__(self, name: str, *, session: httpx.Client, log: EventLog, random: random.Random) -> None:
        super().__init__(name, log=log, random=random)
        self._client = httpx.Client(base_url=session.base_url, cookies=session.cookies, timeout=TIMEOUT_SECONDS)
        self._csrf = {"X-CSRFToken": session.cookies["csrftoken"]}

    def attempt(self, target: Target, name: str) -> Accepted | None:
        """GET the deployment, change it, PUT it back, with If-Match where there is an ETag."""
        path = f"/api/{'deployments' if target.guarded else 'unguarded-deployments'}/{name}/"
        read = self._client.get(path)
        if read.status_code != 200:
            raise RequestFailed(read)
        deployment = read.json()
        changes.make_one(deployment, self.name, self.random)
        self.think()
        precondition = {"If-Match": read.headers["ETag"]} if target.guarded else {}
        written = self._client.put(path, json=deployment, headers={**self._csrf, **precondition})
        if written.status_code in STALE:
            return None
        if written.status_code != 200:
            raise RequestFailed(written)
        return Accepted(counter=self.name, version=written.json().get("version"))
