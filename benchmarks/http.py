"""What preconditions cost over HTTP: ``python -m benchmarks.http [--quick] [--json PATH]``.

Whole requests, from the WSGI application with the reference project's middleware to the rendered answer, without a
network between. The plain view has the same model and serializer and lacks the mixin alone. The database is the one
of DATABASE_URL (a test database is created on it and dropped again), by default SQLite.
"""

from __future__ import annotations

import argparse
import functools
import io
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PUT, FULL, NOT_MODIFIED = "PUT", "GET in full", "GET, not modified"
AIMS = {PUT: 1.05, NOT_MODIFIED: 0.75}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it runs, not to quote")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to PATH")
    options = parser.parse_args()

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from django.db import connection
    from django.test.utils import override_settings, setup_test_environment

    setup_test_environment()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    connection.settings_dict["CONN_MAX_AGE"] = None  # as in production: a request does not connect anew
    try:
        with override_settings(ROOT_URLCONF="benchmarks.http_api"):
            report = measure(rounds=60 if options.quick else 1500)
    finally:
        connection.creation.destroy_test_db("", verbosity=0)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return show(report)


def measure(*, rounds: int) -> dict[str, Any]:
    """Measure writes against a plain view's, and reads against answers in full, on the open database."""
    import django
    from django.db import connection

    from benchmarks.measure import CONTROL, compare, control_holds

    writes = compare(
        {"plain PUT": writer("plain"), CONTROL: writer("plain"), PUT: writer("guarded")},
        baseline="plain PUT",
        rounds=rounds,
    )
    reads = compare(
        {
            FULL: reader("guarded"),
            CONTROL: reader("guarded"),
            NOT_MODIFIED: reader("guarded", known=True),
            "GET of a plain view": reader("plain"),
        },
        baseline=FULL,
        rounds=rounds,
    )
    nested = compare(
        {
            FULL: reader("nested"),
            CONTROL: reader("nested"),
            "GET, rendered and not modified": reader("nested", known=True),
        },
        baseline=FULL,
        rounds=rounds,
    )
    groups = {"to a plain PUT": writes, "to a full GET": reads, "to a full nested GET": nested}
    return {
        "database": f"{connection.vendor} {'.'.join(map(str, connection.get_database_version()))}",
        "django": django.get_version(),
        "python": sys.version.split()[0],
        "ratios": {
            name: {"usable": control_holds(found), "ratios": [ratio.as_dict() for ratio in found]}
            for name, found in groups.items()
        },
    }


def writer(view: str) -> Callable[[], object]:
    """Return a function that PUTs a change of a row of its own, each time with the tag of the answer before."""
    path = f"/{view}/{_new_row()}/"
    numbers = itertools.count(1)
    tag = '"1"'

    def put() -> None:
        nonlocal tag
        body = {"title": "Emma", "stock": next(numbers), "notes": "as before", "price": "9.50", "details": {"a": [1]}}
        status, headers = request("PUT", path, body=json.dumps(body).encode(), HTTP_IF_MATCH=tag)
        assert status == 200, status  # noqa: S101
        tag = headers.get("ETag", tag)

    return put


def reader(view: str, *, known: bool = False) -> Callable[[], object]:
    """Return a function that GETs a row; with ``known`` it has the representation already."""
    path = f"/{view}/{_new_row()}/"
    conditions = {"HTTP_IF_NONE_MATCH": request("GET", path)[1]["ETag"]} if known else {}
    expected = 304 if known else 200

    def get() -> None:
        status, _ = request("GET", path, **conditions)
        assert status == expected, status  # noqa: S101

    return get


def request(method: str, path: str, *, body: bytes = b"", **environ: str) -> tuple[int, dict[str, str]]:
    """Send one request through the WSGI application as a server does, and return status and headers."""
    given: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_ACCEPT": "application/json",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        **environ,
    }
    answered: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        answered.update(status=int(status.split()[0]), headers=dict(headers))

    answer = _application()(given, start_response)
    for _ in answer:
        pass
    answer.close()
    return answered["status"], answered["headers"]


def _new_row() -> int:
    from tests.library.models import Author, Book

    author = Author.objects.create(name="Jane")
    return int(Book.objects.create(title="Emma", details={"a": [1]}, author=author).pk)


@functools.cache
def _application() -> Any:
    from django.core.wsgi import get_wsgi_application

    return get_wsgi_application()


def show(report: dict[str, Any]) -> int:
    """Print the figures beside their aims; return 1 when a usable one misses its aim."""
    missed = 0
    print(f"{report['database']}, Django {report['django']}, Python {report['python']}")
    for name, found in report["ratios"].items():
        doubt = "" if found["usable"] else ": the control strayed from 1.00, so this run says nothing"
        print(f"  Ratios {name}{doubt}")
        for ratio in found["ratios"]:
            aim = AIMS.get(ratio["variant"])
            missed += bool(aim and found["usable"] and ratio["low"] > aim)
            aimed = f"   aim {aim:.2f}" if aim else ""
            print(f"    {ratio['variant']:<32} {ratio['ratio']:6.3f}  [{ratio['low']:.3f}, {ratio['high']:.3f}]{aimed}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
