"""The private servers."""

import pytest

from .brokers import pointed_at
from .servers import RabbitServer, RedisServer


def test_a_redis_server_keeps_its_data_over_a_restart_and_loses_it_when_wiped(redis_server: RedisServer) -> None:
    redis = pytest.importorskip("redis")
    with redis.Redis(port=redis_server.port) as client:
        client.set("key", "value")

        redis_server.stop()
        redis_server.start()
        kept = client.get("key")
        redis_server.wipe()
        wiped = client.get("key")

    assert (kept, wiped) == (b"value", None)


def test_a_paused_redis_server_accepts_and_is_silent(redis_server: RedisServer) -> None:
    redis = pytest.importorskip("redis")
    with redis.Redis(port=redis_server.port, socket_timeout=0.2, retry=None) as client:
        redis_server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()

        redis_server.resume()

        assert client.ping() is True


def test_a_rabbitmq_server_comes_back_after_a_kill(rabbitmq_server: RabbitServer) -> None:
    kombu = pytest.importorskip("kombu")
    rabbitmq_server.kill()
    with pytest.raises(OSError), kombu.Connection(rabbitmq_server.url, connect_timeout=1) as connection:
        connection.connect()

    rabbitmq_server.start()

    with kombu.Connection(rabbitmq_server.url, connect_timeout=5) as connection:
        assert connection.connect()


def test_this_process_sends_to_the_broker_it_is_pointed_at(redis_server: RedisServer) -> None:
    redis = pytest.importorskip("redis")
    from project.celery import app

    with pointed_at(redis_server.url):
        app.send_task("nobody.runs.this")

    with redis.Redis(port=redis_server.port) as client:
        assert client.llen("celery") == 1
