"""What counts as a change of an object since it was read, beyond what the tests of mutate show."""

import pytest
from django.db import models
from django.test.utils import isolate_apps

from occ.models import OptimisticLockModel
from occ.snapshots import Snapshot


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("loaded", [b"abc", memoryview(b"abc")], ids=["bytes", "memoryview"])
@isolate_apps("tests.library")
def test_binary_values_are_compared_by_content(loaded, form):
    class Blob(OptimisticLockModel):
        data = models.BinaryField()

        class Meta:
            app_label = "library"

    blob = Blob(data=loaded)
    snapshot = Snapshot.take(blob, "default")

    blob.data = form(b"xyz")
    assert snapshot.changed(blob) == ["data"]
    blob.data = form(b"abc")
    assert snapshot.changed(blob) == []
