# SPDX-License-Identifier: Apache-2.0
"""The relay that tests of split models put between device and server."""

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.relay import Relay


@contextmanager
def echo_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection):
            with connection:
                try:
                    while piece := connection.recv(4096):
                        connection.sendall(piece)
                except OSError:
                    pass

        def accept():
            try:
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.fixture
def relay():
    with echo_server() as port, Relay("127.0.0.1", port) as made:
        yield made


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(10)
    return connection


def receive(connection, count):
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        assert piece
        received += piece
    return received


def test_bytes_cross_whole_and_are_counted(relay):
    sent = bytes(range(256)) * 2000
    with connect(relay.port) as one, connect(relay.port) as other:
        other.sendall(b"12345")
        assert receive(other, 5) == b"12345"
        sender = threading.Thread(target=one.sendall, args=(sent,))
        sender.start()
        assert receive(one, len(sent)) == sent
        sender.join()
    counts = relay.counts()
    assert (counts.up, counts.down, counts.connections) == (len(sent) + 5, len(sent) + 5, 2)


def test_a_cut_ends_connections_and_others_may_follow(relay):
    with connect(relay.port) as connection:
        connection.sendall(b"1")
        receive(connection, 1)
        relay.cut()
        with pytest.raises(ConnectionError):
            while True:
                connection.sendall(b"1")
                if not connection.recv(1):
                    raise ConnectionResetError
    with connect(relay.port) as connection:
        connection.sendall(b"2")
        assert receive(connection, 1) == b"2"


def test_a_stall_ends_when_it_may(relay):
    with connect(relay.port) as connection:
        relay.stall()
        connection.sendall(b"123")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert relay.counts().up == 0
        connection.settimeout(10)
        relay.go()
        assert receive(connection, 3) == b"123"


def test_a_trickle_is_as_slow_as_asked(relay):
    with connect(relay.port) as connection:
        relay.trickle(50)
        start = time.monotonic()
        connection.sendall(b"x" * 20)
        receive(connection, 20)
        assert 0.4 <= time.monotonic() - start < 5
        relay.trickle(1)
        connection.sendall(b"y" * 20)
        time.sleep(0.2)
        assert relay.counts().up <= 21
        relay.go()
        assert receive(connection, 20) == b"y" * 20


def test_a_stalled_connection_can_be_cut(relay):
    with connect(relay.port) as connection:
        connection.sendall(b"1")
        receive(connection, 1)
        relay.stall()
        connection.sendall(b"2")
        relay.cut()
        with pytest.raises(ConnectionError):
            if not connection.recv(1):
                raise ConnectionResetError


def test_as_a_process():
    script = Path(__file__).resolve().parents[1] / "support" / "relay.py"
    with (
        echo_server() as port,
        subprocess.Popen(
            [sys.executable, script, f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        with connect(int(process.stdout.readline())) as connection:
            connection.sendall(b"1234")
            receive(connection, 4)
        for command in ("trickle 10", "go", "counts"):
            print(command, file=process.stdin, flush=True)
            assert json.loads(process.stdout.readline()) == {"up": 4, "down": 4, "connections": 1}
        process.stdin.close()
        assert process.wait(10) == 0
