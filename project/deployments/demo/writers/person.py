"""A person in the admin: opens a change form, types a note, saves; on the conflict page saves against what is newer."""

import random

import httpx

from project.deployments.demo.events import EventLog, What
from project.deployments.demo.writers import changes
from project.deployments.demo.writers.base import Accepted, RetryingWriter, Target
from project.deployments.demo.writers.forms import Form, forms_of
from project.deployments.demo.writers.http import RequestFailed

CONFLICT = 409
SAVED = 302
COMBINATIONS = 5  # pages in a row on which somebody was faster again


class AdminUser(RetryingWriter):
    """The one who is on call and notes each check in ``notes``; slower than a program."""

    kind = "Admin user"

    def __init__(self, name: str, *, session: httpx.Client, log: EventLog, random: random.Random) -> None:
        super().__init__(name, log=log, random=random)
        self._client = session

    def attempt(self, target: Target, name: str) -> Accepted | None:
        """Open the form, add to the note, save; where somebody was faster, save the combination that is offered."""
        model = "deployment" if target.guarded else "unguardeddeployment"
        path = f"/admin/deployments/{model}/{target.deployments[name]}/change/"
        page = self._client.get(path)
        if page.status_code != 200:
            raise RequestFailed(page)
        form = _change_form(page)
        form.values["notes"] = changes.checked_once_more(form.values["notes"])
        self.think()
        answer = self._submit(path, form)
        combinations = 0
        while answer.status_code == CONFLICT and combinations < COMBINATIONS:
            form = _change_form(answer)
            if form.choices:
                break  # somebody else has changed the note as well: begin again from what it says now
            self.tell(What.CONFLICT, target, name)
            combinations += 1
            self.think()
            answer = self._submit(path, form)
        if answer.status_code == SAVED:
            return Accepted(counter="notes", resubmitted=combinations)
        if answer.status_code == CONFLICT:
            return None
        raise RequestFailed(answer)

    def _submit(self, path: str, form: Form) -> httpx.Response:
        return self._client.post(path, data={**form.values, "_save": form.buttons["_save"]})


def _change_form(page: httpx.Response) -> Form:
    for form in forms_of(page.text):
        if "notes" in form.values:
            return form
    raise RequestFailed(page)
