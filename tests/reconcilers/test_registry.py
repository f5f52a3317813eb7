"""Registering reconcilers, and what is said about those that cannot be."""

from __future__ import annotations

import datetime as dt
import operator
from typing import Any

import pytest

import reconcilers
from reconcilers import Reconciler
from reconcilers.checks import check_watched_models
from reconcilers.exceptions import InvalidKey, InvalidReconciler, UnknownReconciler
from reconcilers.models import WorkItem
from reconcilers.registry import get
from tests.library.models import Book, Counter, Holding, Loan, PlainCounter, Shelf, Tag
from tests.reconcilers.conftest import Register


def example(**attributes: Any) -> type[Reconciler]:
    return type("Example", (Reconciler,), {"model": Counter, "reconcile": lambda self, obj: None, **attributes})


async def reconcile_later(self: Any, obj: Any) -> None: ...


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"model": None}, "set `model` to the model class whose rows it reconciles, not None."),
        (
            {"model": PlainCounter},
            "library.PlainCounter has no version to guard its writes: derive it from occ.models.OptimisticLockModel.",
        ),
        ({"reconcile": Reconciler.reconcile}, "define reconcile(self, obj)."),
        ({"reconcile": reconcile_later}, "reconcile and gone must be ordinary functions; use "),
        ({"conflict_retries": -1}, "conflict_retries must be a whole number, 0 or more, not -1."),
        ({"max_attempts": 0}, "max_attempts must be a whole number, 1 or more, not 0."),
        ({"lease": 30}, "lease must be a timedelta above 0, not 30."),
        ({"resync": dt.timedelta(0)}, "resync must be a timedelta above 0 or None, not datetime.timedelta(0)."),
        ({"backoff": 5}, "backoff must be an occ.Backoff, not 5."),
        ({"name": "x" * 101}, "its name is longer than 100 characters: set a shorter `name`."),
        ({"reconcile": lambda self: None}, "reconcile must take one argument beside self, the object: define "),
        ({"reconcile": lambda self, obj, more: None}, "reconcile must take one argument beside self, the object: "),
        ({"gone": lambda self: None}, "gone must take one argument beside self, the key: define gone(self, key)."),
        ({"__init__": lambda self, region: None}, "its __init__ must take no arguments: one instance serves all runs."),
        ({"queue": 5}, "queue must be the name of a Celery queue or None, not 5."),
        (
            {"watches": {Tag: lambda: None}},
            "the function that watches Tag must take one argument, the changed object.",
        ),
        (
            {"watches": [Tag]},
            "watches must map model classes to functions from a changed object to keys, not be [<class ",
        ),
        ({"watches": {Tag: "book"}}, "watches must map model classes to functions from a changed object to keys, not "),
    ],
)
def test_an_incomplete_class_is_refused_with_the_remedy(
    attributes: dict[str, Any], problem: str, register: Register
) -> None:
    with pytest.raises(InvalidReconciler) as refused:
        register(example(**attributes))

    assert f"Example: {problem}" in str(refused.value)


@pytest.mark.parametrize(
    "attributes",
    [
        {"reconcile": staticmethod(lambda obj: None)},
        {"reconcile": lambda self, *anything: None},
        {"reconcile": lambda self, obj, dry=False: None},
        {"watches": {Tag: operator.attrgetter("pk")}},
    ],
    ids=["static", "anything", "a default", "written in C"],
)
def test_whatever_can_be_called_with_the_object_is_taken(attributes: dict[str, Any], register: Register) -> None:
    registered = register(example(**attributes))

    assert get("Example").__class__ is registered


def test_two_of_one_name_are_told_to_set_it(register: Register) -> None:
    register(example())

    with pytest.raises(InvalidReconciler, match=r"are both named 'Example': set `name` on one of them\."):
        register(example())
    register(example(name="another"))

    assert get("another").name == "another"


def test_a_subclass_has_a_name_of_its_own(register: Register) -> None:
    parent = register(example())
    child = register(type("Child", (parent,), {}))

    assert (parent.name, child.name, get(child).name) == ("Example", "Child", "Child")


def test_anything_but_a_reconciler_is_refused() -> None:
    with pytest.raises(InvalidReconciler, match=r"@register takes a subclass of reconcilers\.Reconciler, not "):
        reconcilers.register(Counter)  # type: ignore[type-var]


@pytest.mark.django_db
def test_an_unknown_reconciler_is_named_with_those_that_are_known(register: Register) -> None:
    register(example())

    with pytest.raises(UnknownReconciler) as unknown:
        reconcilers.enqueue("Exmaple", 1)

    assert (unknown.value.name, "Example" in unknown.value.known) == ("Exmaple", True)


@pytest.mark.parametrize(
    ("model", "pk", "key"),
    [
        (Counter, 7, "7"),
        (Counter, "007", "7"),
        (Shelf, "B-7", "B-7"),
        (Loan, "6F9619FF-8B86-D011-B42D-00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ],
)
def test_a_key_has_one_text_whatever_it_was_given_as(model: Any, pk: Any, key: str) -> None:
    reconciler = example(model=model)()

    assert reconciler.key_for(pk) == key
    assert reconciler.key_for(reconciler.pk_for(key)) == key


def test_a_composite_key_has_one_text(register: Register) -> None:
    reconciler = example(model=Holding)()

    key = reconciler.key_for((1, "0042"))

    assert key == reconciler.key_for([1, 42]) == reconciler.key_for(reconciler.pk_for(key))
    assert reconciler.pk_for(key) == (1, 42)
    assert reconciler.key_for('["1","42"]') == reconciler.key_for(" [1, 42]") == key


@pytest.mark.parametrize(
    ("model", "pk"),
    [
        (Counter, "seven"),
        (Counter, None),
        (Counter, 7.5),
        (Counter, True),
        (Loan, "7"),
        (Shelf, ""),
        (Shelf, "x" * 300),
        (Shelf, "nul\x00"),
        (Shelf, "lone surrogate \udce9"),
        (Counter, {"id": 7}),
        (Counter, (7,)),
        (Counter, Counter(pk=7)),
        (Shelf, Shelf(code="B-7")),
        (Shelf, ("B-7",)),
        (Shelf, ["B-7"]),
        (Shelf, b"B-7"),
    ],
)
def test_what_cannot_be_a_key_is_refused(model: Any, pk: Any) -> None:
    with pytest.raises(InvalidKey):
        example(model=model)().key_for(pk)


@pytest.mark.parametrize(
    "pk",
    [
        (1, 2, 3),
        (1,),
        (1, None),
        (1, 2.5),
        (1, True),
        (1, [2]),
        (1, "two"),
        12,
        "12",
        "garbage",
        '"12"',
        '{"1": 2, "3": 4}',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_a_composite_key_is_refused(pk: Any) -> None:
    reconciler = example(model=Holding)()

    for convert in (reconciler.key_for, reconciler.pk_for) if isinstance(pk, str) else (reconciler.key_for,):
        with pytest.raises(InvalidKey):
            convert(pk)


@pytest.mark.django_db
def test_keys_that_differ_in_case_only_are_two_keys(register: Register) -> None:
    register(example(model=Shelf))

    reconcilers.enqueue("Example", "B-7")
    reconcilers.enqueue("Example", "b-7")

    assert sorted(WorkItem.objects.values_list("key", flat=True)) == ["B-7", "b-7"]


@pytest.mark.django_db
@pytest.mark.parametrize("delay", [-1, dt.timedelta(seconds=-1), float("nan"), float("inf"), "5", True])
def test_a_delay_that_is_no_duration_is_refused(register: Register, delay: Any) -> None:
    register(example())

    with pytest.raises(ValueError, match="delay must be a timedelta or a number of seconds"):
        reconcilers.enqueue("Example", 1, delay=delay)


def test_a_watched_model_without_the_guard_is_a_warning(register: Register) -> None:
    register(example(watches={Tag: lambda tag: None, Book: lambda book: None}))

    (warning,) = check_watched_models(None)

    assert (warning.id, "watches library.Tag" in warning.msg) == ("reconcilers.W003", True)


def test_writes_of_a_registered_model_open_a_transaction_and_others_do_not(register: Register) -> None:
    with_reconciler = []

    register(example(watches={Book: lambda book: None}))
    with_reconciler = [model._occ_atomic_writes for model in (Counter, Book, Shelf)]

    assert with_reconciler == [True, True, False]
