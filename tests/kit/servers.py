"""Private Redis, RabbitMQ and nginx servers, on ports of their own, that a test may stop, kill, pause and wipe."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .processes import ManagedProcess
from .services import nginx_path, rabbitmq_script, require
from .waiting import eventually


def free_port() -> int:
    """Return a TCP port that nobody listens on right now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """One server process with its data in a folder; ``start`` after ``stop`` or ``kill`` finds its data again."""

    scheme: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: ManagedProcess | None = None
        self._paused = False
        self._starts = 0

    @property
    def url(self) -> str:
        raise NotImplementedError

    def start(self) -> None:
        """Start it and return once it serves."""
        assert self._process is None, f"{self.url} runs already"
        log = self.folder / f"server-{self._starts}.log"
        self._starts += 1
        self._process = ManagedProcess(self._command(), env={**os.environ, **self._environment()}, log=log)
        self._process.wait_for_output(self._ready_text(), timeout=90)

    def stop(self) -> None:
        """Shut it down in its own way (SIGTERM); what it keeps on disk stays."""
        if self._process is not None:
            self._process.terminate(timeout=60)
            self._process = None

    def kill(self) -> None:
        """End it without a goodbye (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process = None
            self._paused = False

    def pause(self) -> None:
        """Let it accept connections and say nothing (SIGSTOP)."""
        assert self._process is not None
        self._process.pause()
        self._paused = True

    def resume(self) -> None:
        assert self._process is not None
        self._process.resume()
        self._paused = False

    def restore(self) -> None:
        """Get it running again, whatever a test did to it."""
        if self._process is None:
            self.start()
        elif self._paused:
            self.resume()

    def wipe(self) -> None:
        """Make it forget everything, as after a lost disk."""
        raise NotImplementedError

    def close(self) -> None:
        self.kill()

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return {}

    def _ready_text(self) -> str:
        raise NotImplementedError


class RedisServer(Server):
    scheme = "redis"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def wipe(self) -> None:
        from redis import Redis

        with Redis(port=self.port) as client:
            client.flushall()

    def _command(self) -> list[str]:
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "save": "", "appendonly": "yes"}
        return ["redis-server", *(str(word) for name, value in options.items() for word in (f"--{name}", value))]

    def _ready_text(self) -> str:
        return "Ready to accept connections"


class RabbitServer(Server):
    scheme = "amqp"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._node_port = free_port()
        self._name_port = free_port()
        (folder / "plugins").write_text("[].")
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        # Its name daemon is a process of ours too: the server would start one that outlives it.
        name_daemon = ["epmd", "-address", "127.0.0.1", "-port", str(self._name_port)]
        self._name_daemon = ManagedProcess(name_daemon, env=os.environ, log=folder / "epmd.log")
        eventually(self._name_daemon_listens, what="epmd listens")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def wipe(self) -> None:
        """Drop its data folder while it is down, and start it empty."""
        self.kill()
        self._data().rename(self.folder / f"mnesia-wiped-{self._starts}")
        self.start()

    def close(self) -> None:
        super().close()
        self._name_daemon.kill()

    def _data(self) -> Path:
        return self.folder / "mnesia"

    def _name_daemon_listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._name_port)) == 0

    def _command(self) -> list[str]:
        script = rabbitmq_script()
        assert script is not None
        return [script]

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),  # where Erlang keeps its cookie
            "ERL_EPMD_PORT": str(self._name_port),
            "RABBITMQ_NODENAME": f"occ{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": str(self._data()),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _ready_text(self) -> str:
        return "Server startup complete"


class NginxServer(Server):
    """nginx before another HTTP server, compressing all that it passes on, as so many are set up."""

    scheme = "http"

    def __init__(self, folder: Path, upstream: str) -> None:
        super().__init__(folder)
        self.configuration = folder / "nginx.conf"
        places = "\n".join(
            f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.configuration.write_text(f"""
            daemon off;
            {"user root;" if os.geteuid() == 0 else ""}
            pid {folder}/nginx.pid;
            error_log stderr notice;
            events {{}}
            http {{
                access_log off;
                {places}
                gzip on;
                gzip_proxied any;
                gzip_min_length 0;
                gzip_types application/json;
                server {{
                    listen 127.0.0.1:{self.port};
                    location / {{
                        proxy_pass {upstream};
                        proxy_set_header Host $http_host;
                        proxy_read_timeout 60s;
                    }}
                }}
            }}
            """)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        program = nginx_path()
        assert program is not None
        return [program, "-p", str(self.folder), "-c", str(self.configuration), "-e", "stderr"]

    def _ready_text(self) -> str:
        return "start worker processes"


@pytest.fixture
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], NginxServer]]:
    """Start nginx before the server at an address."""
    require("nginx")
    servers: list[NginxServer] = []

    def start(upstream: str) -> NginxServer:
        server = NginxServer(tmp_path_factory.mktemp("nginx"), upstream)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running Redis server of this test's own."""
    require("redis")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def _rabbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    require("rabbitmq")
    server = RabbitServer(tmp_path_factory.mktemp("rabbitmq"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def rabbitmq_server(_rabbitmq_server: RabbitServer) -> Iterator[RabbitServer]:
    """A running RabbitMQ server of this run's own (it needs seconds to start, so tests share it one after another)."""
    yield _rabbitmq_server
    _rabbitmq_server.restore()
