# SPDX-License-Identifier: Apache-2.0
"""Frames over gRPC between two processes of this machine: round trips, throughput, and what crosses beside the payload.

    ninja -C build stream_bench
    .venv/bin/python bench/streams.py [--frames 2000]

A frame has a head of 24 bytes and a body, goes to the server and comes back. A round trip is one frame at a time;
throughput is with eight under way, each way. Overhead is what a relay counts between the two processes, both ways, over
the bodies' bytes; a connection's own handshake, the same for all, is taken off.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mebp.certificates import make_certificates
from mebp.tables import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))
from support.relay import Relay  # noqa: E402

PROGRAM = ROOT / "build" / "bin" / "stream_bench"
BODIES = (64, 384, 4_096, 36_864, 98_304, 1_048_576)
HEAD = 24


@contextmanager
def server(certificates: list[str]) -> Iterator[int]:
    command = [PROGRAM, "serve", str(max(BODIES) + HEAD), *certificates]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield int(process.stdout.readline())
        process.stdin.close()


def ask(port: int, body: int, frames: int, in_flight: int, certificates: list[str]) -> tuple[float, float, float]:
    """Median and 99th percentile of a round trip in microseconds, and seconds in all."""
    given = [f"localhost:{port}", body, frames, in_flight, *certificates]
    run = subprocess.run([PROGRAM, "ask", *map(str, given)], capture_output=True, text=True, check=True)
    median, tail, seconds = map(float, run.stdout.split())
    return median, tail, seconds


def crossing(port: int, body: int, frames: int, certificates: list[str]) -> int:
    with Relay("localhost", port) as relay:
        ask(relay.port, body, frames, 1, certificates)
        counts = relay.counts()
    return counts.up + counts.down


def measure(body: int, frames: int, certificates: list[str]) -> list[str]:
    frames = max(50, min(frames, 200_000_000 // body))
    with server(certificates) as port:
        median, tail, _ = ask(port, body, frames, 1, certificates)
        *_, seconds = ask(port, body, frames, 8, certificates)
        few, many = (crossing(port, body, number, certificates) for number in (20, 120))
    overhead = (many - few) / (2 * 100 * body) - 1
    return [
        f"{body:,}",
        f"{median:.0f}",
        f"{tail:.0f}",
        f"{body * frames / seconds / 1e6:.1f}",
        f"{100 * overhead:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=2000, help="of each size, or as many as 200 MB are")
    frames = parser.parse_args().frames
    columns = ["bytes", "round trip us", "its 99th", "MB/s each way", "overhead %"]
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(folder)
        for way, certificates in (("TLS", [folder]), ("plain text", [])):
            print(Table(way, columns, [measure(body, frames, certificates) for body in BODIES]))


if __name__ == "__main__":
    main()
