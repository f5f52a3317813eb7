"""The mixin left of other packages' ModelAdmins: the whole flow, and what the package itself is for."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps

from tests.occ.admin.composing.models import Article
from tests.occ.admin.editors import Editor

PACKAGES = ["unfold"] if apps.is_installed("unfold") else ["guardian", "importexport", "reversion", "simplehistory"]


@pytest.fixture(autouse=True)
def admin_urls(settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = "tests.occ.admin.composing.site"
    yield


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest, ann: Editor, bob: Editor) -> str:
    ann.site = bob.site = request.param
    return str(request.param)


@pytest.fixture
def article(db: None) -> Article:
    return Article.objects.create(title="Old", price=5)


def test_a_conflict_is_shown_and_settled(package: str, ann: Editor, bob: Editor, article: Article) -> None:
    bob.open(article)
    ann.open(article)
    assert "changed successfully" in ann.submit(price="9", follow=True).text

    page = bob.submit(price="7", title="New")

    assert page.status == 409
    assert "Not saved yet: this article was changed after you opened it." in page.text
    assert "Keep 9" in page.text
    assert "Use 7" in page.text
    page = bob.submit(occ_choice_price="theirs", follow=True)
    assert "changed successfully" in page.text
    article.refresh_from_db()
    assert (article.title, article.price, article.version) == ("New", 9, 3)


def test_a_stale_list_and_a_stale_deletion_are_refused(
    package: str, ann: Editor, bob: Editor, article: Article
) -> None:
    ann.open_list(Article)
    Article.objects.filter(pk=article.pk).update(price=6)
    assert ann.submit(**{"form-0-price": "7"}).status == 409
    bob.open(article, "delete")
    Article.objects.filter(pk=article.pk).update(price=8)

    page = bob.submit("")

    assert page.status == 409
    assert Article.objects.exists()
    bob.submit("")
    assert not Article.objects.exists()


def test_histories_hold_what_was_saved_and_nothing_else(
    package: str, ann: Editor, bob: Editor, article: Article
) -> None:
    before = article.history.count()
    bob.open(article)
    ann.open(article)
    ann.submit(price="9")
    bob.submit(price="7")
    assert article.history.count() == before + 1
    bob.submit(occ_choice_price="mine")
    assert article.history.count() == before + 2
