# SPDX-License-Identifier: Apache-2.0
"""Stands between a device and a server: counts the bytes that really cross, those of TLS and HTTP/2 included, and cuts,
stalls or slows connections down on demand.

As a process of its own, `python relay.py HOST:PORT`, it prints the port that it listens on, takes a command a line on
standard input (`cut`, `stall`, `trickle RATE`, `go`, `counts`), and answers each with one line of JSON, the counts.
"""

import argparse
import json
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

_PIECE = 1 << 16


@dataclass
class Counts:
    """Bytes since the beginning, and connections."""

    up: int = 0  # to the server
    down: int = 0
    connections: int = 0


class Relay:
    """Forwards 127.0.0.1:`port` to the server, in threads, until it is closed."""

    def __init__(self, host: str, port: int, heard: bytearray | None = None) -> None:
        """`heard` gets all that crosses."""
        self._server = (host, port)
        self._heard = heard
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._changed = threading.Condition()
        self._counts = Counts()
        self._open: set[socket.socket] = set()
        self._rate: float | None = None  # bytes a second; 0: none; None: all
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def counts(self) -> Counts:
        with self._changed:
            return Counts(**asdict(self._counts))

    def cut(self) -> None:
        """Ends every connection at once, as when a host vanishes from the network: by a reset, and nothing after it."""
        with self._changed:
            ended, self._open = self._open, set()
            self._changed.notify_all()
        for each in ended:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def stall(self) -> None:
        """From now on nothing crosses, while connections stay."""
        self.trickle(0)

    def trickle(self, rate: float) -> None:
        """From now on so many bytes a second cross, each way of each connection."""
        with self._changed:
            self._rate = rate
            self._changed.notify_all()

    def go(self) -> None:
        """Ends a stall or a trickle."""
        with self._changed:
            self._rate = None
            self._changed.notify_all()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                device, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:
                    device.close()
                    continue
                with self._changed:
                    self._counts.connections += 1
                    self._open |= {device, server}
                for source, target, way in ((device, server, "up"), (server, device, "down")):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._forward, args=(source, target, way), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, way: str) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                while piece:
                    crossing = self._wait_for_leave(len(piece), source)
                    with self._changed:
                        setattr(self._counts, way, getattr(self._counts, way) + crossing)
                        if self._heard is not None:
                            self._heard += piece[:crossing]
                    target.sendall(piece[:crossing])
                    piece = piece[crossing:]
            target.shutdown(socket.SHUT_WR)

    def _wait_for_leave(self, waiting: int, source: socket.socket) -> int:
        """How many of the bytes that wait may cross now, at least one; OSError where the connection was cut."""
        with self._changed:
            while self._rate == 0 and source in self._open:
                self._changed.wait()
            if source not in self._open:
                raise ConnectionAbortedError
            rate = self._rate
            if rate is None:
                return waiting
            # One piece every so often, and a change of mind ends the wait.
            crossing = min(waiting, max(1, int(rate / 20)))
            end = time.monotonic() + crossing / rate
            while self._rate == rate and source in self._open and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
        return crossing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", metavar="HOST:PORT")
    host, _, port = parser.parse_args().server.rpartition(":")
    with Relay(host, int(port)) as relay:
        print(relay.port, flush=True)
        for line in sys.stdin:
            name, *values = line.split()
            if name not in ("cut", "stall", "trickle", "go", "counts"):
                parser.error(f"'{name}' is not a command")
            done = getattr(relay, name)(*map(float, values))
            print(json.dumps(asdict(done or relay.counts())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
