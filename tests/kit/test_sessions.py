"""The second database session."""

from django.db import connection, transaction

from tests.library.models import Author

from .sessions import Session


def test_a_second_session_sees_only_what_is_committed(second_session: Session) -> None:
    with transaction.atomic():
        Author.objects.create(name="Ursula")
        during = second_session.run(Author.objects.count)
    after = second_session.run(Author.objects.count)

    assert (during, after) == (0, 1)


def test_a_second_session_has_a_connection_of_its_own(second_session: Session) -> None:
    def open_connection() -> object:
        connection.ensure_connection()
        return connection.connection

    ours, other = open_connection(), second_session.run(open_connection)

    assert other is not ours
