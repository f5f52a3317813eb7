"""The embedded broker: kombu's filesystem transport, made safe for several processes.

kombu's own opens the message file under its final name and then fills it, so a consumer can read it empty and die;
it also moves taken messages through the system's temporary folder, which on another filesystem is a copy that two
consumers can make. Here a file appears by one rename and is taken by one rename. Named by CELERY_BROKER_TRANSPORT.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.parse import quote

from kombu.transport import filesystem, virtual
from kombu.utils.encoding import bytes_to_str, str_to_bytes
from kombu.utils.json import dumps, loads


class Channel(filesystem.Channel):
    """Put and take messages atomically; the folders are made when the channel opens."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._messages = Path(self.data_folder_out)
        self._taken = Path(self.processed_folder)
        for folder in (self._messages, self._taken, self.control_folder):
            folder.mkdir(parents=True, exist_ok=True)

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:  # type: ignore[override]
        # Readers sort by name: a padded wall-clock time keeps the order, also across a reboot.
        name = f"{time.time_ns():020}_{uuid.uuid4().hex}.{queue}.msg"
        aside = self._taken / f"{name}.new"
        aside.write_bytes(str_to_bytes(dumps(message)))
        aside.rename(self._messages / name)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for name in sorted(os.listdir(self.data_folder_in)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            taken = self._taken / name
            try:
                os.rename(os.path.join(self.data_folder_in, name), taken)
            except FileNotFoundError:
                continue  # another consumer was faster
            payload = taken.read_bytes()
            taken.unlink()
            return loads(bytes_to_str(payload))
        raise Empty

    def get_table(self, exchange: str) -> list[Any]:
        try:
            rows = loads(bytes_to_str(self._table_path(exchange).read_bytes()))
        except FileNotFoundError:
            return []
        return [filesystem.exchange_queue_t(*row) for row in rows]

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        with self._bindings_locked():
            table = self.get_table(exchange)
            row = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
            if row not in table:
                self._write_table(exchange, [row, *table])

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str | None, *args: Any, **kwargs: Any
    ) -> None:
        self._purge(queue)
        with self._bindings_locked():
            table = self.get_table(exchange)
            row = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
            if row in table:
                self._write_table(exchange, [other for other in table if other != row])

    def _write_table(self, exchange: str, table: list[Any]) -> None:
        path = self._table_path(exchange)
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        aside.write_bytes(str_to_bytes(dumps(table)))
        aside.rename(path)

    def _table_path(self, exchange: str) -> Path:
        # Quoted, so that no exchange's name can point out of the folder.
        return self.control_folder / f"{quote(exchange, safe='')}.exchange"

    @contextmanager
    def _bindings_locked(self) -> Iterator[None]:
        with (self.control_folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class Transport(filesystem.Transport):
    """The transport of ``filesystem://`` in this project."""

    Channel = Channel

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        # kombu keeps one state for the process and writes no binding twice: a second or a recreated folder has none.
        self.state = virtual.BrokerState()
