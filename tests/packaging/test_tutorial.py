"""The tutorial, followed word by word from an empty folder, with the wheel alone and in a browser's stead."""

from pathlib import Path

import requests

from tests.docs.projects import ROOT
from tests.kit.processes import Processes
from tests.kit.servers import free_port
from tests.kit.services import require
from tests.occ.admin.editors import Page
from tests.packaging.reader import Reader

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def edit_in_two_tabs(site: str) -> None:
    """Do what the part about the admin says in words."""
    browser = requests.Session()
    address = f"{site}/admin/deployments/deployment/1/change/"
    login = Page(browser.get(address))
    names = {"username": "ann", "password": "tutorial"}
    browser.post(login.response.url, {**login.data, **names, "next": address.removeprefix(site)})
    first, second = Page(browser.get(address)), Page(browser.get(address))
    assert (first.status, first.data["replicas"]) == (200, "7")

    saved = browser.post(address, {**first.data, "replicas": "4", "_save": "Save"}, allow_redirects=False)
    refused = Page(browser.post(address, {**second.data, "name": "checkout", "_save": "Save"}, allow_redirects=False))
    merged = browser.post(address, {**refused.data, "_save": "Save combined"}, allow_redirects=False)

    assert (saved.status_code, refused.status, merged.status_code) == (302, 409, 302)
    assert 'value="Save combined"' in refused.html
    assert (refused.data["name"], refused.data["replicas"]) == ("checkout", "4")


def test_a_reader_who_follows_it_sees_what_it_says(wheel: Path, tmp_path: Path, plain_processes: Processes) -> None:
    require("curl")
    before, after = TUTORIAL.split("## In the background\n")
    reader = Reader(tmp_path, plain_processes, wheel=wheel, port=free_port())

    reader.follow(before)
    edit_in_two_tabs(reader.site)
    reader.follow(after)


def test_its_links_lead_to_pages() -> None:
    links = [part.split(")")[0] for part in TUTORIAL.split("](")[1:]]

    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
