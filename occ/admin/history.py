"""Who changed an object since a person opened it: from the admin's log, else from the row, else nobody known."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.utils import translation

from occ.admin.wording import when_in_words

LONGEST = 5  # changes listed; the history page has the others


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of an object.

    Attributes:
        who: the name of the person; empty when it was no person, or nobody recorded it.
        when: the time; None when nobody recorded it.
        what: the labels of the changed fields that the viewer may see.
        deleted: whether the object was deleted.
        name: the object, as the log has it.
        user_pk: the person's primary key.
    """

    who: str = ""
    when: datetime.datetime | None = None
    what: tuple[str, ...] = ()
    deleted: bool = False
    name: str = ""
    user_pk: Any = None

    @property
    def when_in_words(self) -> str:
        """The time as a person would say it."""
        return when_in_words(self.when) if self.when else ""


def changes_since(
    obj: models.Model,
    pk: object,
    since: datetime.datetime | None,
    visible: Mapping[str, str],
    writes: int | None = None,
) -> list[Change]:
    """Return the latest changes of ``obj``, oldest first; one without a name where the admin's log has none.

    Args:
        obj: the object as it is now, or an empty one of its class when it is gone.
        pk: its primary key.
        since: when the person opened the object; None: unknown, only the latest change is returned.
        visible: the fields whose names may be shown: the labels that the log has, not translated, to those to show.
        writes: how often the row was written since then; None: unknown. Those that the log does not have are the
            work of another program.
    """
    entries = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(obj, for_concrete_model=False), object_id=str(pk)
    ).select_related("user")
    if since is not None:
        entries = entries.filter(action_time__gte=since)
    latest = list(entries.order_by("-action_time", "-pk")[: LONGEST if since is not None else 1])
    changes = [
        Change(
            who=_name(entry.user),
            user_pk=entry.user_id,
            when=entry.action_time,
            deleted=entry.action_flag == DELETION,
            name=entry.object_repr,
            what=tuple(visible[label] for label in _labels(entry) if label in visible),
        )
        for entry in reversed(latest)
    ]
    logged = sum(any(_labels(entry)) for entry in latest)
    if not changes or (writes is not None and logged < writes and len(latest) < LONGEST):
        last_write = _last_write(obj)
        if last_write is not None and changes and last_write < latest[0].action_time:
            last_write = None  # the one that the log has
        changes.append(Change(when=last_write))
    return changes


def changes_of_row(parent: models.Model, row: models.Model, since: datetime.datetime | None) -> list[Change]:
    """Return the latest changes of a row of an inline, from the log of the object on whose page it was edited.

    The log has the row's text only: a row whose text was changed later is not found.
    """
    entries = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(parent, for_concrete_model=False), object_id=str(parent.pk)
    ).select_related("user")
    if since is not None:
        entries = entries.filter(action_time__gte=since)
    with translation.override(None):
        kind = str(row._meta.verbose_name)
    return [
        Change(
            who=_name(entry.user), user_pk=entry.user_id, when=entry.action_time, deleted=deleted, name=part["object"]
        )
        for entry in reversed(entries.order_by("-action_time", "-pk")[:LONGEST])
        for part, deleted in _row_parts(entry)
        if part.get("name") == kind and (deleted if row._state.adding else part.get("object") == str(row))
    ] or [Change(when=_last_write(row))]


def _name(user: Any) -> str:
    full_name = getattr(user, "get_full_name", str)()  # a user model need not have it
    return full_name or str(user.get_username())


def _row_parts(entry: LogEntry) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield what a log entry says of rows of inlines, and whether they were deleted."""
    for part in _parts(entry):
        for what in ("changed", "deleted"):
            told = part.get(what)
            if isinstance(told, dict) and "name" in told and "object" in told:
                yield told, what == "deleted"


def _parts(entry: LogEntry) -> list[dict[str, Any]]:
    try:
        parts = json.loads(entry.change_message)
    except ValueError:
        return []
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _labels(entry: LogEntry) -> Iterator[str]:
    """Yield the labels of the object's own fields in a log entry, as the admin writes it."""
    for part in _parts(entry):
        changed: Any = part.get("changed", {})
        if "name" not in changed:
            yield from changed.get("fields", ())


def _last_write(obj: models.Model) -> datetime.datetime | None:
    for field in obj._meta.concrete_fields:
        if isinstance(field, models.DateTimeField) and field.auto_now:
            when: datetime.datetime | None = getattr(obj, field.attname)
            return when
    return None
