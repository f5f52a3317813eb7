"""What to do about a contended model: own fields, or one queue.

Writers that change different fields of a row do not disagree, and need not meet at all: field ownership lets each
write its own. Writers that change the same field have to take turns: the work queue gives each row one worker. Which
of the two it is follows from the sample of refused writes (``collisions``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from occ.contention.collisions import UNKNOWN
from occ.contention.models import Collision

Cure = Literal["field ownership", "work queue", "unknown"]

MOST_NAMED = 5
MOSTLY = 0.5  # of the conflicts with a known base


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What collides, and the cure.

    Attributes:
        cure: ``"field ownership"``, ``"work queue"``, or ``"unknown"`` where no sample tells.
        disjoint: sampled conflicts in which the two sides had changed different fields.
        same: those in which both had changed a field.
        unclear: those in which only the differences are known.
        fields: the fields that collide, the most frequent first.
        writers: who was refused, the most often first; then who else writes the model.
        text: all of it in two sentences.
    """

    cure: Cure
    disjoint: int
    same: int
    unclear: int
    fields: list[str]
    writers: list[str]
    text: str


def advise(writers: Sequence[tuple[str, int, int]], collisions: Iterable[Collision]) -> Advice:
    """Advise on a model, from (name, writes, conflicts) of its writers and what was sampled of their conflicts."""
    disjoint = same = unclear = 0
    contested: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    pairs: Counter[tuple[str, str, str]] = Counter()
    for each in collisions:
        mine = _names(each.mine)
        if each.theirs == UNKNOWN:
            unclear += each.count
            differing.update(dict.fromkeys(mine, each.count))
            continue
        theirs = _names(each.theirs)
        if both := mine & theirs:
            same += each.count
            contested.update(dict.fromkeys(both, each.count))
        else:
            disjoint += each.count
            apart.update(dict.fromkeys(mine | theirs, each.count))
            pairs[each.writer, each.mine, each.theirs] += each.count
    names = _named(writers)
    known = disjoint + same
    facts: dict[str, Any] = {"disjoint": disjoint, "same": same, "unclear": unclear, "writers": names}
    told = {"known": known, "writers": ", ".join(names)}
    if known and disjoint > MOSTLY * known:
        (writer, changed, found), _count = pairs.most_common(1)[0]
        return Advice(
            cure="field ownership",
            fields=_most_frequent(apart),
            text=_(
                "%(disjoint)d of %(known)d sampled conflicts were between writers of different fields: %(writer)s "
                "changed %(mine)s, others had changed %(theirs)s. Let each writer own its fields: objects.apply(..., "
                "manager=...) on a FieldOwnershipModel. Writers: %(writers)s."
            )
            % {**told, "disjoint": disjoint, "writer": writer, "mine": _listed(changed), "theirs": _listed(found)},
            **facts,
        )
    if known:
        fields = _most_frequent(contested)
        return Advice(
            cure="work queue",
            fields=fields,
            text=_(
                "In %(same)d of %(known)d sampled conflicts both sides had changed the same field (%(fields)s). Let "
                "one writer do it: record elsewhere what is wanted, and have a reconciler, one worker per row, write "
                "the field. Writers: %(writers)s."
            )
            % {**told, "same": same, "fields": ", ".join(fields)},
            **facts,
        )
    fields = _most_frequent(differing)
    return Advice(
        cure="unknown",
        fields=fields,
        text=_(
            "No sampled conflict tells whether its two sides had changed the same field (the rows differed in: "
            "%(fields)s); writes through mutate() would. Field ownership is the cure where they change different "
            "fields, the work queue where they change the same one. Writers: %(writers)s."
        )
        % {**told, "fields": ", ".join(fields) or "-"},
        **facts,
    )


def _named(writers: Sequence[tuple[str, int, int]]) -> list[str]:
    counted: dict[str, list[int]] = {}
    for name, writes, conflicts in writers:
        total = counted.setdefault(name, [0, 0])
        total[0] += writes
        total[1] += conflicts
    ranked = sorted(counted.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return [
        _("%(name)s (%(refused)s refused)") % {"name": name, "refused": number_format(conflicts, force_grouping=True)}
        for name, (_writes, conflicts) in ranked[:MOST_NAMED]
    ]


def _names(joined: str) -> set[str]:
    return set(joined.split(",")) - {""}


def _listed(joined: str) -> str:
    return joined.replace(",", ", ") or _("nothing but the version")


def _most_frequent(counter: Counter[str]) -> list[str]:
    ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return [name for name, _count in ranked[:MOST_NAMED]]
