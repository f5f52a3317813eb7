"""Managers of one row in processes of their own: many applies, and kill -9 in the middle of them."""

import pytest

from tests.kit.processes import ManagedProcess, Processes
from tests.kit.waiting import eventually
from tests.library.models import Column
from tests.races.test_owned_fields import assert_all_is_there

pytestmark = pytest.mark.django_db(transaction=True)

EACH = 1000


def applying(processes: Processes, pk: int, index: int, each: int) -> ManagedProcess:
    """Start a process that raises the field ``f<index>`` by one, ``each`` times."""
    return processes.python(
        "-c",
        "import django; django.setup()\n"
        "from tests.library.models import Column\n"
        f"begin = Column.objects.values_list('f{index}', flat=True).get(pk={pk})\n"
        f"for value in range(begin + 1, begin + {each} + 1):\n"
        f"    Column.objects.apply({pk}, {{'f{index}': value}}, manager='manager-{index}')\n",
    )


@pytest.mark.parametrize("managers", [2, 10])
def test_a_thousand_applies_of_each_manager_lose_nothing(processes: Processes, managers: int):
    row = Column.objects.create()

    running = [applying(processes, row.pk, index, EACH) for index in range(managers)]
    codes = [process.wait(timeout=1200) for process in running]

    assert codes == [0] * managers
    assert_all_is_there(row, managers, EACH)


def test_data_and_owners_agree_after_a_kill_in_mid_write(processes: Processes):
    row = Column.objects.create()

    for _ in range(5):
        begun = Column.objects.get().version
        running = [applying(processes, row.pk, index, 100_000) for index in range(3)]
        eventually(lambda begun=begun: Column.objects.get().version > begun + 30, timeout=120, what="some applies")
        for process in running:
            process.kill()

        row = Column.objects.get()
        values = {name: value for name in ("f0", "f1", "f2") if (value := getattr(row, name))}
        assert sum(values.values()) == row.version - 1  # each apply raised one value by one, and the version
        assert {name: entry["apply"] for name, entry in row.managed_fields.items()} == {
            name: [f"manager-{name[1:]}"] for name in values
        }
        assert max(entry["at"] for entry in row.managed_fields.values()) == row.version
