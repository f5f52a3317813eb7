"""What an apply changes: the rules of field ownership, without a database.

They are those of Kubernetes' server-side apply (kubernetes.io/docs/reference/using-api/server-side-apply), for columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from occ.exceptions import Contested
from occ.managed_fields import Change, Entry


@dataclass(kw_only=True)
class Plan:
    """What an apply is about to write, and on what it was decided.

    Attributes:
        values: the fields that get the value asked for.
        reset: the fields that nobody owns any more, which return to their defaults.
        entries: the new owners of fields, by name.
        removed: the fields that lose their entry.
        found: the ``at`` of each entry that the decision rests on, None where there was none. The write must not
            happen unless they are still the same.
        contested: what others own and the manager may not change. Nothing may be written.
    """

    values: list[str] = field(default_factory=list)
    reset: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    found: dict[str, int | None] = field(default_factory=dict)
    contested: list[Contested] = field(default_factory=list)

    @property
    def change(self) -> Change:
        """The change of the ownership column."""
        return Change(entries=self.entries, removed=self.removed)


def plan(
    managed: Mapping[str, Entry],
    *,
    manager: str,
    wanted: Collection[str],
    same: Collection[str],
    current: Mapping[str, Any],
    force: bool,
    keep: bool,
) -> Plan:
    """Return what it takes for ``manager`` to own the fields ``wanted``, with the values that it wants.

    Args:
        managed: the entries of the row.
        same: which of the fields have the value that is wanted already.
        current: the values of the wanted fields in the row, to tell of conflicts.
        force: take the fields that others own.
        keep: leave the fields that the manager owns and does not name as they are, instead of giving them up.
    """
    result = Plan()
    for name in wanted:
        _claim(result, managed.get(name, {}), name, manager, name in same, current.get(name), force)
    for name, entry in managed.items():
        if name not in wanted and not keep and manager in entry.get("apply", ()):
            _give_up(result, entry, name, manager)
    return result


def _claim(result: Plan, entry: Entry, name: str, manager: str, same: bool, current: Any, force: bool) -> None:
    appliers = list(entry.get("apply", ()))
    others = [each for each in appliers if each != manager]
    if "update" in entry:
        others.append(entry["update"])
    result.found[name] = entry.get("at")
    if same and manager in appliers:
        return
    if others and not same and not force:
        result.contested += [Contested(name, other, current) for other in others]
        return
    result.values.append(name)
    if same:  # shared with those who own it
        result.entries[name] = {**_without_at(entry), "apply": sorted({*appliers, manager})}
    else:
        result.entries[name] = {"apply": [manager]}


def _give_up(result: Plan, entry: Entry, name: str, manager: str) -> None:
    result.found[name] = entry.get("at")
    left = {**_without_at(entry), "apply": [each for each in entry["apply"] if each != manager]}
    if not left["apply"]:
        del left["apply"]
    if left:
        result.entries[name] = left
    else:
        result.removed.append(name)
        result.reset.append(name)


def _without_at(entry: Entry) -> Entry:
    return {key: value for key, value in entry.items() if key != "at"}
