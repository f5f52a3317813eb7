"""Files on a change form: an upload is an edit like any other, but a browser cannot be given it again."""

from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.library.models import Attachment, Manuscript
from tests.occ.admin.editors import Editor


def upload(name: str) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, name.encode())


@pytest.fixture
def manuscript(db: None, settings: Any, tmp_path: Path) -> Manuscript:
    settings.MEDIA_ROOT = tmp_path
    row = Manuscript(title="Old")
    row.scan.save("one.txt", ContentFile(b"one"), save=False)
    row.contract.save("deal.txt", ContentFile(b"deal"), save=False)
    row.save()
    return row


def values(row: Manuscript) -> tuple[str, str, str, int]:
    row.refresh_from_db()
    return row.title, row.scan.name, row.contract.name, row.version


def test_an_upload_on_a_fresh_page_is_saved(ann: Editor, manuscript: Manuscript) -> None:
    ann.open(manuscript)

    page = ann.submit(scan=upload("two.txt"), follow=True)

    assert "changed successfully" in page.text
    assert values(manuscript) == ("Old", "scans/two.txt", "contracts/deal.txt", 2)


def test_files_that_only_others_changed_are_kept_as_theirs(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"), contract=upload("better.txt"))

    page = bob.submit(title="New")

    assert page.status == 409
    assert "Scan theirs kept scans/one.txt scans/two.txt" in page.text
    assert "Currently: scans/two.txt" in page.text
    bob.submit(follow=True)
    assert values(manuscript) == ("New", "scans/two.txt", "contracts/better.txt", 3)


def test_an_upload_that_met_an_upload_has_to_be_chosen_again(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"))

    page = bob.submit(scan=upload("three.txt"))

    assert page.status == 409
    assert "Scan choose scans/one.txt Keep scans/two.txt: Scan Use three.txt: Scan" in page.text
    assert "Please choose the file for “Scan” again: browsers do not keep it." in page.text
    page = bob.submit(scan=upload("three.txt"), occ_choice_scan="mine", follow=True)
    assert "changed successfully" in page.text
    assert values(manuscript) == ("Old", "scans/three.txt", "contracts/deal.txt", 3)


def test_a_file_of_the_others_can_be_kept(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"))
    bob.submit(title="New", scan=upload("three.txt"))

    bob.submit(occ_choice_scan="theirs", follow=True)

    assert values(manuscript) == ("New", "scans/two.txt", "contracts/deal.txt", 3)


def test_mine_without_the_file_is_asked_about_again(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"))
    bob.submit(scan=upload("three.txt"))

    page = bob.submit(occ_choice_scan="mine")

    assert page.status == 409
    assert values(manuscript) == ("Old", "scans/two.txt", "contracts/deal.txt", 2)


def test_theirs_with_the_file_sent_again_does_not_save_it(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"))
    bob.submit(title="New", scan=upload("three.txt"))

    bob.submit(scan=upload("three.txt"), occ_choice_scan="theirs")

    assert values(manuscript) == ("New", "scans/two.txt", "contracts/deal.txt", 3)


def test_an_upload_beside_an_edit_of_another_field_is_told_to_be_lost(
    ann: Editor, bob: Editor, manuscript: Manuscript
) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(title="New")

    page = bob.submit(scan=upload("two.txt"))

    assert page.status == 409
    assert "Scan yours kept scans/one.txt scans/one.txt two.txt" in page.text
    assert "Please choose the file for “Scan” again: browsers do not keep it." in page.text
    bob.submit(scan=upload("two.txt"))
    assert values(manuscript) == ("New", "scans/two.txt", "contracts/deal.txt", 3)


def test_a_stale_deletion_names_the_file_that_changed(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript, "delete")
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"))

    page = bob.submit("")

    assert page.status == 409
    assert "scans/two.txt" in page.text


def test_a_file_is_cleared_only_by_who_saw_it(ann: Editor, bob: Editor, manuscript: Manuscript) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(scan=upload("two.txt"))

    page = bob.submit(**{"scan-clear": "on"})

    assert page.status == 409
    assert values(manuscript) == ("Old", "scans/two.txt", "contracts/deal.txt", 2)
    bob.submit(occ_choice_scan="mine", **{"scan-clear": "on"})
    assert values(manuscript) == ("Old", "", "contracts/deal.txt", 3)


@pytest.fixture
def attachment(manuscript: Manuscript) -> Attachment:
    row = Attachment(manuscript=manuscript)
    row.file.save("map.txt", ContentFile(b"map"), save=False)
    row.save()
    return row


def test_an_upload_to_a_row_is_asked_about_at_the_row(
    ann: Editor, bob: Editor, manuscript: Manuscript, attachment: Attachment
) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(**{"attachments-0-file": upload("hers.txt")})

    page = bob.submit(**{"attachments-0-file": upload("his.txt")})

    assert page.status == 409
    assert "Keep attachments/hers.txt: File Use his.txt: File" in page.text
    assert "Please choose the file for “File” again: browsers do not keep it." in page.text
    page = bob.submit(**{"attachments-0-file": upload("his.txt"), "attachments-0-occ_choice_file": "mine"})
    assert page.status == 302
    attachment.refresh_from_db()
    assert (attachment.file.name, attachment.version) == ("attachments/his.txt", 3)


def test_an_upload_to_a_row_deleted_meanwhile_can_be_added_again(
    ann: Editor, bob: Editor, manuscript: Manuscript, attachment: Attachment
) -> None:
    bob.open(manuscript)
    ann.open(manuscript)
    ann.submit(**{"attachments-0-DELETE": "on"})
    assert not Attachment.objects.exists()

    page = bob.submit(**{"attachments-0-file": upload("his.txt")})

    assert page.status == 409
    assert "his.txt" in page.text
    page = bob.submit(**{"attachments-0-file": upload("his.txt"), "attachments-0-occ_choice_row": "again"})
    assert page.status == 302
    assert list(Attachment.objects.values_list("file", "version")) == [("attachments/his.txt", 1)]


def test_an_upload_to_an_object_deleted_meanwhile_can_be_saved_as_new(
    ann: Editor, bob: Editor, manuscript: Manuscript
) -> None:
    bob.open(manuscript)
    manuscript.delete()

    page = bob.submit(title="New", scan=upload("two.txt"))

    assert page.status == 409
    assert page.data["title"] == "New"
    page = bob.submit("_saveasnew", scan=upload("two.txt"), contract=upload("deal.txt"), follow=True)
    assert "was added successfully" in page.text
    assert Manuscript.objects.get().scan.name == "scans/two.txt"
