# SPDX-License-Identifier: Apache-2.0
"""What a device and a server hold while a split model trains, beside their plans.

    .venv/bin/python bench/split_memory.py [--lengths 128 512] [--steps 3] [--folder DIR]
        [--markdown docs/private-lora.md]

SmolLM2-135M in bf16, M of 32 x 32 on q, k and v, AdamW. The device is a process, and the server another one, joined by
gRPC without TLS on loopback. Shown are a session's planned bytes, and by how many anonymous bytes (/proc/PID/status)
each process grew at most from before the session to its last step: the session, and what gRPC keeps of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from parts.pages import write_between_marks
from parts.process_memory import AnonymousPeak, anonymous_bytes
from parts.split_bundles import Bundles, compile_both, export

import mebp
from mebp.inspect import inspect
from mebp.split import connect

KEPT = ((0, 0), (2, 2))
OFTEN = 0.002  # seconds
HEADER = [
    "| K, N | tokens | device, planned MB | grew by | by a second session | server, planned MB | grew by |",
    "| --- |" + " ---: |" * 6,
]


def session_bytes(bundle: Path) -> int:
    plan = inspect(bundle)["plan"]
    return plan["peak_bytes"] - plan["process_bytes"]


def be_device(edge: Path, port: int, steps: int) -> None:
    """Prints by how many bytes this process grew, for one session and for another one after it."""
    ids = np.random.default_rng(0)

    def train() -> int:
        stream = connect(edge, f"127.0.0.1:{port}")
        begun = anonymous_bytes(os.getpid())
        with AnonymousPeak(os.getpid(), OFTEN) as peak:
            session = mebp.Session(edge, stream=stream, threads=1)
            shape = (1, session.max_sequence)
            for _ in range(steps):
                tokens = ids.integers(0, session.vocabulary, shape, dtype=np.int32)
                session.step(tokens, tokens)
        return peak.bytes - begun

    print(json.dumps([train(), train()]))


@contextmanager
def serving(cloud: Path) -> Iterator[tuple[int, int]]:
    """The process, and its port."""
    command = [sys.executable, "-m", "mebp", "serve", str(cloud), "--listen", "127.0.0.1:0", "--plain-text"]
    process = subprocess.Popen([*command, "--threads", "1"], stdout=subprocess.PIPE, text=True)
    try:
        yield process.pid, int(process.stdout.readline().rsplit(":", 1)[-1])
    finally:
        process.terminate()
        process.wait()


def measure(bundles: Bundles, steps: int) -> list[int]:
    with serving(bundles.cloud) as (pid, port):
        begun = anonymous_bytes(pid)
        device = [sys.executable, __file__, "--device", str(bundles.edge), str(port), "--steps", str(steps)]
        with AnonymousPeak(pid, OFTEN) as peak:
            printed = subprocess.run(device, check=True, capture_output=True, text=True).stdout
    grew = json.loads(printed)
    return [session_bytes(bundles.edge), *grew, session_bytes(bundles.cloud), peak.bytes - begun]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mebp-split-memory")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table")
    parser.add_argument("--device", nargs=2, metavar=("EDGE", "PORT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.device:
        be_device(Path(arguments.device[0]), int(arguments.device[1]), arguments.steps)
        return
    lines = list(HEADER)
    for length in arguments.lengths:
        folder = arguments.folder / str(length)
        folder.mkdir(parents=True, exist_ok=True)
        model = export(folder, length)
        for kept in KEPT:
            figures = measure(compile_both(model, "bf16", kept), arguments.steps)
            cells = [f"{kept[0]}, {kept[1]}", str(length), *(f"{figure / 1e6:.2f}" for figure in figures)]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/split_memory.py", lines)


if __name__ == "__main__":
    main()
