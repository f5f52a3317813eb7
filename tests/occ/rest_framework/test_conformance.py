"""The conformance table of the REST layer, black box: what each request is answered, and what the row is then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.library.models import Author, Book, Chapter, Shelf

from .conftest import Answer, Call

pytestmark = pytest.mark.urls("tests.occ.rest_framework.api")

BODY = {"title": "Emma", "stock": 7}
BAD_BODY = {"title": "", "stock": "many"}
DEEP_BODY = f'{{"title": "Emma", "details": {"[" * 100_000}{"]" * 100_000}}}'  # more than Python's json can read


class Row:
    """One row as a client knows it: its current tag, and the one before."""

    def __init__(self, call: Call) -> None:
        self.call = call
        created = call("POST", "/books/", body={"title": "Emma", "stock": 1})
        assert created.status == 201, created
        self.pk = created.json["id"]
        self.path = f"/books/{self.pk}/"
        self.stale = created.tag
        changed = call("PATCH", self.path, body={"stock": 2}, headers={"If-Match": self.stale})
        assert changed.status == 200, changed
        self.current = changed.tag

    def send(self, method: str, *, body: Any = None, **headers: str) -> Answer:
        return self.call(method, self.path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    @property
    def state(self) -> tuple[int, int] | None:
        return Book.objects.values_list("version", "stock").filter(pk=self.pk).first()


@pytest.fixture
def row(call: Call) -> Row:
    return Row(call)


UNTOUCHED = (2, 2)
WRITTEN = (3, 7)
GONE = None


def opaque(tag: str) -> str:
    return tag.strip('"')


def version(tag: str) -> str:
    return opaque(tag).partition("-")[0]


CURRENT: dict[str, Callable[[str], str]] = {
    "the current tag": lambda tag: tag,
    "the bare version": lambda tag: f'"{version(tag)}"',
    "the weak tag": lambda tag: f"W/{tag}",
    "a list with it": lambda tag: f'"zz", {tag}',
    "a list with empty elements": lambda tag: f',"zz",,{tag},',
    "a list with odd spaces": lambda tag: f' \t"zz"  ,\t{tag}  ',
    "a star": lambda tag: "*",
    "a star in spaces": lambda tag: " * ",
    "Apache's gzip suffix": lambda tag: f'"{opaque(tag)}-gzip"',
    "Jetty's gzip suffix": lambda tag: f'"{opaque(tag)}--gzip"',
    "a semicolon suffix": lambda tag: f'"{opaque(tag)};gzip"',
    "a digest after it": lambda tag: f'"{opaque(tag)}-0123456789abcdef"',
    "a weak one of a list": lambda tag: f'"1,2", W/"x", W/{tag}',
}

STALE: dict[str, Callable[[str, str], str]] = {
    "the tag before": lambda current, stale: stale,
    "the weak tag before": lambda current, stale: f"W/{stale}",
    "another's tag": lambda current, stale: '"nobody-knows"',
    "a tag named star": lambda current, stale: '"*"',
    "an empty tag": lambda current, stale: '""',
    "a version to come": lambda current, stale: '"3"',
    "a version with zeros": lambda current, stale: '"02"',
    "a signed version": lambda current, stale: '"+2"',
    "the version of another row": lambda current, stale: f'"{version(current)}-00000000"',
    "a version too long for a number": lambda current, stale: f'"{"9" * 5000}"',
    "a digit that is not ASCII": lambda current, stale: '"\xb2"',
}

ABSENT: list[dict[str, str]] = [{}, {"If-Match": ""}, {"If-Match": ", ,"}]

MALFORMED = [
    "7",
    "garbage",
    "W/7",
    '"open',
    'open"',
    '*, "x"',
    '"x", *',
    '"a" "b"',
    "W/",
    'w/"a"',
    'W /"a"',
    '"a"b',
    '"a b"',
    "**",
    "'a'",
    "W/*",
    ";",
]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_write_that_names_the_current_version_is_made(row: Row, method: str) -> None:
    answers, tag = {}, row.current

    for stock, (name, form) in enumerate(CURRENT.items(), start=100):
        answer = row.send(method, body={**BODY, "stock": stock}, If_Match=form(tag))
        answers[name] = (answer.status, row.state, answer.json.get("version"))
        tag = answer.headers.get("ETag")

    assert answers == {
        name: (200, (version, stock), version)
        for version, stock, name in zip(range(3, 99), range(100, 199), CURRENT, strict=False)
    }
    assert tag == row.send("GET").tag


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_write_that_names_another_version_is_refused(row: Row, method: str) -> None:
    answers = {name: row.send(method, body=BODY, If_Match=form(row.current, row.stale)) for name, form in STALE.items()}

    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(STALE, 409)
    assert {answer.headers.get("ETag") for answer in answers.values()} == {None}
    assert row.state == UNTOUCHED


def test_a_refusal_says_what_happened_and_what_to_do(row: Row) -> None:
    answer = row.send("PUT", body=BODY, If_Match=row.stale)

    assert answer.json == {
        "detail": f"Book {row.pk} has changed since you read it: it is now at version 2. GET it again, make your "
        "change to what you get, and send it with the new ETag.",
        "code": "stale_version",
        "current_version": 2,
    }


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_write_without_a_version_is_refused_and_told_how_to_send_one(row: Row, method: str) -> None:
    answers = [row.call(method, row.path, body=BODY, headers=headers) for headers in ABSENT]

    assert [answer.status for answer in answers] == [428, 428, 428]
    assert answers[0].json == {
        "detail": f"Say which version of book {row.pk} you want to change, so that nobody's change is lost. Send the "
        'ETag of your last GET in an If-Match header, for example If-Match: "42-9f3c1a2b", or its "version" in the '
        "body.",
        "code": "precondition_required",
    }
    assert row.state == UNTOUCHED


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_malformed_if_match_is_no_absent_one(row: Row, method: str) -> None:
    answers = {value: row.send(method, body={**BODY, "version": 2}, If_Match=value) for value in MALFORMED}

    assert {value: answer.status for value, answer in answers.items()} == dict.fromkeys(MALFORMED, 400)
    assert answers["7"].json == {
        "detail": 'If-Match must be * or a list of entity tags, each in double quotes, such as "42-9f3c1a2b". No '
        "entity tag at character 1. Send the ETag of your last GET as you received it, quotes included.",
        "code": "invalid_precondition",
    }
    assert row.state == UNTOUCHED


@pytest.mark.parametrize("sent", [2, "2"])
def test_the_current_version_may_come_in_the_body(row: Row, sent: Any) -> None:
    answer = row.send("PUT", body={**BODY, "version": sent})

    assert (answer.status, row.state) == (200, WRITTEN)


def test_another_version_in_the_body_is_refused(row: Row) -> None:
    sent = [1, 999, -1, 10**40, None, "", "two", 2.0, True, [2], {"is": 2}]

    answers = [row.send("PUT", body={**BODY, "version": version}) for version in sent]

    assert [answer.status for answer in answers] == [409] * 4 + [400] * 7
    assert [answer.json["code"] for answer in answers] == ["stale_version"] * 4 + ["invalid_precondition"] * 7
    assert row.state == UNTOUCHED


def test_what_get_returned_can_be_put_back(row: Row) -> None:
    document = row.send("GET").json

    answer = row.send("PUT", body={**document, "stock": 7})

    assert (answer.status, row.state) == (200, WRITTEN)


@pytest.mark.parametrize(
    ("tag", "sent", "status"),
    [
        ("current", 2, 200),
        ("current", 1, 409),
        ("stale", 2, 409),
        ("stale", 1, 409),
        ("star", 1, 409),
        ("star", 2, 200),
    ],
)
def test_header_and_body_must_both_match(row: Row, tag: str, sent: int, status: int) -> None:
    value = {"current": row.current, "stale": row.stale, "star": "*"}[tag]

    answer = row.send("PUT", body={**BODY, "version": sent}, If_Match=value)

    assert (answer.status, row.state) == (status, WRITTEN if status == 200 else UNTOUCHED)


@pytest.mark.parametrize(
    ("tag", "body", "status"),
    [
        ("stale", BAD_BODY, 409),
        ("stale", '{"title": ', 409),
        ("current", BAD_BODY, 400),
        ("current", '{"title": ', 400),
        ("current", [BODY], 400),
        ("current", "null", 400),
        pytest.param("stale", DEEP_BODY, 409, id="stale-deep"),
        pytest.param("current", DEEP_BODY, 400, id="current-deep"),
        pytest.param("", DEEP_BODY, 400, id="none-deep"),
        ("", BAD_BODY, 428),
        ("", '{"title": ', 400),
        ("garbage", BAD_BODY, 400),
    ],
)
def test_the_version_is_judged_before_the_body(row: Row, tag: str, body: Any, status: int) -> None:
    value = {"stale": row.stale, "current": row.current}.get(tag, tag)

    answer = row.send("PUT", body=body, If_Match=value)

    assert (answer.status, row.state) == (status, UNTOUCHED)


def test_a_new_row_nested_too_deeply_is_refused_too(call: Call) -> None:
    answer = call("POST", "/books/", body=DEEP_BODY)

    assert (answer.status, answer.json) == (400, {"detail": "The body is nested too deeply."})


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_body_that_came_in_chunks_and_got_lost_is_no_empty_one(row: Row, method: str) -> None:
    chunks = {"Transfer-Encoding": "chunked"}

    answers = [row.call(method, row.path, headers={**chunks, "If-Match": tag}) for tag in (row.current, row.stale, "")]

    assert [answer.status for answer in answers] == [400, 409, 400]
    assert answers[0].json == {"detail": "The body did not arrive: it came in chunks. Send it with a Content-Length."}
    assert row.state == UNTOUCHED


def test_what_no_version_can_change_comes_first(row: Row) -> None:
    for tag in ["", "garbage", '"1"', row.current, "*"]:
        headers = {"If-Match": tag}
        missing = [
            row.call(method, "/books/999999/", body=BODY, headers={name: tag})
            for method in ("GET", "PUT", "PATCH", "DELETE")
            for name in ("If-Match", "If-None-Match")
        ]
        collection = row.call("PUT", "/books/", body=BODY, headers=headers)
        accept = row.send("PUT", body=BODY, If_Match=tag, Accept="image/png")
        media_type = row.send("PUT", body="stock=7", If_Match=tag, Content_Type="text/csv")

        assert [answer.status for answer in (collection, accept, media_type)] == [405, 406, 415]
        assert {answer.status for answer in missing} == {404}
    assert row.state == UNTOUCHED


def test_create_read_and_head_have_one_tag(row: Row) -> None:
    created = row.call("POST", "/books/", body=BODY)
    path = f"/books/{created.json['id']}/"

    read, head = row.call("GET", path), row.call("HEAD", path)

    assert (created.status, read.status, head.status) == (201, 200, 200)
    assert created.tag == read.tag == head.tag
    assert head.content == b""


def test_lists_have_no_tag_and_their_items_a_version(row: Row) -> None:
    answer = row.call("GET", "/books/")

    assert "ETag" not in answer.headers
    assert [item["version"] for item in answer.json["results"]] == [2]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_of_what_the_client_has_is_not_modified(row: Row, method: str) -> None:
    known = [row.current, f"W/{row.current}", f'"q", {row.current}', "*", f'"{opaque(row.current)}-gzip"']

    answers = [row.send(method, If_None_Match=value) for value in known]

    assert [(answer.status, answer.content, answer.tag) for answer in answers] == [(304, b"", row.current)] * 5
    assert ["Accept" in answer.headers["Vary"] for answer in answers] == [True] * 5
    assert ["Content-Type" in answer.headers for answer in answers] == [False] * 5


def test_a_read_of_what_the_client_has_not_is_answered_in_full(row: Row) -> None:
    known = [row.stale, '"q"', '"*"', "garbage", "", '"2"']

    answers = [row.send("GET", If_None_Match=value) for value in known]

    assert [(answer.status, answer.json["stock"]) for answer in answers] == [(200, 2)] * 6


def test_a_read_may_demand_a_version(row: Row) -> None:
    demanded = [row.current, "*", "", row.stale, '"q"', "garbage"]

    answers = [row.send("GET", If_Match=value) for value in demanded]

    assert [answer.status for answer in answers] == [200, 200, 200, 412, 412, 400]


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "status"),
    [
        ("{current}", "{current}", 412),
        ("{current}", "*", 412),
        ("{current}", '"q"', 200),
        ("{current}", "{stale}", 200),
        ("{current}", "garbage", 400),
        ("{stale}", '"q"', 409),
        ("{stale}", "{current}", 409),
        ("", "*", 412),
        ("", '"q"', 428),
    ],
)
def test_if_match_is_judged_before_if_none_match(row: Row, if_match: str, if_none_match: str, status: int) -> None:
    tags = {"current": row.current, "stale": row.stale}

    answer = row.send("PUT", body=BODY, If_Match=if_match.format(**tags), If_None_Match=if_none_match.format(**tags))

    assert (answer.status, row.state) == (status, WRITTEN if status == 200 else UNTOUCHED)
    if status == 412:
        assert answer.json["code"] == "precondition_failed"
        assert "ETag" not in answer.headers


def test_if_none_match_says_what_it_rules_out(row: Row) -> None:
    star, tag = (row.send("PUT", body=BODY, If_None_Match=value) for value in ("*", row.current))
    star_text = (
        f"Nothing was written: book {row.pk} exists already, and If-None-Match: * asks that it does not. To change it, "
        "GET it and send its ETag in If-Match."
    )

    named = row.send("PUT", body=BODY, If_Match=row.current, If_None_Match=row.current)

    assert (star.status, star.json) == (
        412,
        {"detail": star_text, "code": "precondition_failed", "current_version": 2},
    )
    assert tag.status == 428
    assert (named.status, named.json["detail"]) == (
        412,
        f"Nothing was written: book {row.pk} is at version 2, which If-None-Match rules out.",
    )


def test_delete_needs_the_current_version_and_happens_once(row: Row) -> None:
    refused = row.send("DELETE", If_Match=row.stale)
    deleted = row.send("DELETE", If_Match=row.current)
    again = row.send("DELETE", If_Match=row.current)

    assert (refused.status, deleted.status, again.status) == (409, 204, 404)
    assert row.state is GONE


def test_delete_takes_the_version_in_the_body_too(row: Row) -> None:
    refused = row.send("DELETE", body={"version": 1})
    deleted = row.send("DELETE", body={"version": 2})

    assert (refused.status, deleted.status) == (409, 204)


@pytest.mark.parametrize("body", [{"title": "Emma", "stock": 2}, {}, {"stock": "2", "price": 0, "details": {}}])
def test_a_write_that_changes_nothing_writes_nothing(row: Row, body: dict[str, Any]) -> None:
    before = Book.objects.values().get()

    answer = row.send("PATCH", body=body, If_Match=row.current)

    assert (answer.status, answer.tag, answer.json["version"]) == (200, row.current, 2)
    assert Book.objects.values().get() == before


def test_the_nested_object_changes_the_representation_and_not_the_version(call: Call) -> None:
    author = Author.objects.create(name="Jane")
    book = Book.objects.create(title="Emma", author=author)
    path = f"/nested/{book.pk}/"
    before = call("GET", path)

    author.name = "Jane Austen"
    author.save()
    after = call("GET", path, headers={"If-None-Match": before.tag})
    again = call("GET", path, headers={"If-None-Match": after.tag})
    written = call("PUT", path, body={"title": "Persuasion"}, headers={"If-Match": before.tag})

    assert (after.status, after.json["version"], after.json["author"]["name"]) == (200, 1, "Jane Austen")
    assert after.tag != before.tag
    assert (again.status, again.content, again.tag) == (304, b"", after.tag)
    assert (written.status, written.json["version"]) == (200, 2)
    assert written.tag == call("GET", path).tag


def test_a_row_created_again_under_its_key_does_not_answer_to_the_old_tag(call: Call) -> None:
    created = call("POST", "/shelves/", body={"code": "a1"})
    Shelf.objects.all().delete()
    again = call("POST", "/shelves/", body={"code": "a1"})

    refused = call("PUT", "/shelves/a1/", body={"code": "a1", "label": "mine"}, headers={"If-Match": created.tag})

    assert (created.status, again.status, refused.status) == (201, 201, 409)


def test_the_row_of_another_key_does_not_answer_to_the_tag(call: Call) -> None:
    first, second = (call("POST", "/books/", body=BODY) for _ in range(2))

    refused = call("PUT", f"/books/{second.json['id']}/", body=BODY, headers={"If-Match": first.tag})

    assert refused.status == 409


def test_a_version_field_of_another_name_is_a_precondition_and_never_stored(call: Call) -> None:
    created = call("POST", "/shelves/", body={"code": "a1", "number": 5})
    number = created.json["number"]

    refused = call("PUT", "/shelves/a1/", body={"code": "a1", "label": "x", "number": number + 1})
    written = call("PUT", "/shelves/a1/", body={"code": "a1", "label": "x", "number": number})

    assert number > 5
    assert (refused.status, written.status) == (409, 200)
    assert written.json == {"code": "a1", "number": number + 1, "label": "x"}


def test_a_get_object_of_the_views_own_is_checked(call: Call) -> None:
    chapter = Chapter.objects.create(book=Book.objects.create(title="Emma"), title="one")
    tag = call("GET", "/chapters/one/").tag
    body = {"book": chapter.book_id, "title": "one", "pages": 9}

    without = call("PUT", "/chapters/one/", body=body)
    written = call("PUT", "/chapters/one/", body=body, headers={"If-Match": tag})
    stale = call("DELETE", "/chapters/one/", headers={"If-Match": tag})

    assert (without.status, written.status, stale.status) == (428, 200, 409)


def test_options_lists_put_and_patch(row: Row) -> None:
    answer = row.send("OPTIONS")

    assert {"PUT", "PATCH", "DELETE"} <= set(answer.headers["Allow"].split(", "))
    assert answer.json["actions"]["PUT"]["version"]["read_only"] is True


def test_the_mixin_adds_no_methods_to_a_view(row: Row) -> None:
    answer = row.call("PUT", row.path.replace("books", "readonly"), body=BODY)

    assert answer.status == 405
