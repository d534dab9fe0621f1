# SPDX-License-Identifier: Apache-2.0
"""One model over a device, which has the text and the adapter, and a server, which has the layers."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.files import user_path
from mebp.numbers import checked, whole_number

RETRY_SECONDS = 60.0
MOST_IN_FLIGHT = 64
LONGEST_MS = 2**32 - 2  # of a uint32_t, whose largest value never ends


@dataclass(frozen=True)
class Credentials:
    """Files in PEM form: one's own certificate and key, and the authority that has signed the other side's."""

    certificate: str | os.PathLike[str]
    key: str | os.PathLike[str]
    authority: str | os.PathLike[str]


def milliseconds(option: str, seconds: float) -> int:
    """At least one, since 0 is the runtime's own. Raises mebp.Error for what is no time."""
    if not (math.isfinite(seconds) and 0 < seconds * 1000 <= LONGEST_MS):
        raise Error(f"{option} is {seconds:g}; give seconds above 0 and up to {LONGEST_MS // 1000}")
    return max(1, round(seconds * 1000))


def _endpoint(address: str, credentials: Credentials | None) -> object:
    files = (credentials.certificate, credentials.key, credentials.authority) if credentials else ("", "", "")
    return load_runtime().Endpoint(address, *(os.fspath(user_path(file)) if file else "" for file in files))


class Server:
    """The server's half of a split model: NAME.cloud.mebp."""

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        memory_limit: int = 0,
        resume_window: float = 120.0,
        max_sessions: int = 64,
    ) -> None:
        """threads: of each session; None for as many as the process may run on.

        memory_limit: bytes of all sessions together, as planned; one more is refused. 0 for none.
        resume_window: seconds that a session waits for its device to come back.
        max_sessions: devices at once; one more is refused.
        """
        runtime = load_runtime()
        for name, value in {
            "threads": threads or 0,
            "memory_limit": memory_limit,
            "max_sessions": max_sessions,
        }.items():
            whole_number(name, value, at_least=0)
        self._bundle = runtime.Bundle(os.fspath(user_path(path)))
        window = milliseconds("--resume-window", resume_window)
        self._native = runtime.Server(self._bundle, threads or 0, memory_limit, window, max_sessions)

    def listen(self, address: str, credentials: Credentials | None = None) -> int:
        """Serves devices at HOST:PORT from now on, and returns the port. Without credentials on loopback alone."""
        self._native.listen(_endpoint(address, credentials))
        return self._native.port()

    def lines(self) -> list[str]:
        """What there was to say since the last call."""
        return self._native.lines()

    def stop(self) -> None:
        """Ends all sessions, and begins no other."""
        self._native.stop()


@checked
def connect(
    bundle: str | os.PathLike[str],
    server: Server | str,
    credentials: Credentials | None = None,
    identity: str = "here",
    retry_for: float = RETRY_SECONDS,
    records: bool = False,
    in_flight: int = 1,
) -> object:
    """What mebp.Session takes as its `stream`.

    bundle: the device's half, NAME.edge.mebp, which says how large a frame may be.
    server: HOST:PORT, or a Server of this process.
    retry_for: seconds in which a server that cannot be reached is tried again before a call fails; nothing has changed
        then.
    records: of such a Server, keep what it receives and sends: recorded() of what is returned.
    in_flight: so many micro-batches of a step are under way at once, up to 64, in a session with accumulate=True: one
        is computed while others wait for the server. Steps have the bits of 1. Each more takes memory, a stream, and a
        session of the server's.
    """
    runtime = load_runtime()
    if not 1 <= in_flight <= MOST_IN_FLIGHT:
        raise Error(f"--in-flight is {in_flight}; give 1 to {MOST_IN_FLIGHT}")
    if isinstance(server, Server):
        return runtime.Stream(server._native, identity, records, in_flight)
    frame_bytes = runtime.Bundle(os.fspath(user_path(bundle))).info()["frame_bytes"]
    if not frame_bytes:
        raise Error(f"{bundle}: is a whole model, which needs no server; leave out --connect")
    retry_ms = milliseconds("--retry-for", retry_for)
    return runtime.Stream(_endpoint(server, credentials), frame_bytes, retry_ms, in_flight)


def kept_layers(description: Mapping[str, object]) -> tuple[int, int]:
    """K and N of a half: how many first and last layers are the device's."""
    split = description["split"]
    return split["first_block"] - 1, len(description["blocks"]) - 1 - split["end_block"]


@contextmanager
def served(path: str | os.PathLike[str], **options: object) -> Iterator[Server]:
    """A server of this process, stopped at the end."""
    server = Server(path, **options)
    try:
        yield server
    finally:
        server.stop()
