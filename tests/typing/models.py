"""What users' type checkers see: checked by mypy and pyright in ``make lint``, never run."""

from typing import assert_type

import occ
from occ.diffs import FieldDiff, refresh
from occ.models import OptimisticLockManager, OptimisticLockQuerySet
from tests.library.models import Book, Member, VisibleManager


def add(book: Book) -> None:
    book.stock += 1


assert_type(Book.objects, OptimisticLockManager[Book])
assert_type(Book.objects.get(pk=1), Book)
assert_type(Book.objects.filter(pk=1), OptimisticLockQuerySet[Book])
assert_type(Book.objects.mutate(1, add), Book)
assert_type(Book.objects.filter(pk=1).order_by("pk").mutate(1, add, backoff=occ.Backoff(attempts=3)), Book)
assert_type(Book.objects.bulk_update([], ["stock"]), int)
assert_type(Book.objects.all().bulk_update([], ["stock"], on_conflict="skip"), list[Book])
assert_type(Member.objects, VisibleManager)
assert_type(Member.objects.mutate(1, lambda member: None), Member)
assert_type(Book().version, int)


@occ.retry_on_conflict
def plain(pk: int, *, name: str) -> float:
    return 1.0


@occ.retry_on_conflict(backoff=occ.Backoff(base=0.1), lock_after=None)
async def asynchronous(pk: int) -> str:
    return ""


assert_type(plain(1, name="x"), float)


async def wait() -> None:
    assert_type(await asynchronous(1), str)
    assert_type(await Book.objects.amutate(1, add), Book)


def handle(conflict: occ.Conflict) -> None:
    assert_type(conflict.expected, int | None)
    assert_type(conflict.using, str)
    assert_type(refresh(conflict, keep_mine=True), list[FieldDiff])
