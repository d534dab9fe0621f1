# SPDX-License-Identifier: Apache-2.0
"""What micro-batches in flight make of a training step between a device and a server that is far away.

    .venv/bin/python bench/in_flight.py [--rtt 20] [--mbit 0] [--seq-len 64] [--accumulate 8] [--in-flight 1 2 4 8]
        [--steps 3] [--markdown docs/private-lora-latency.md]

SmolLM2-135M in bf16, M of 32 x 32 on q, k and v of all layers, which are all on the server. Both halves run here, over
a shaped stream: the device with one thread, the server with one for each micro-batch in flight. What is printed is the
median of the steps after a first one.
Losses have to be the same bits for every number in flight.
"""

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from parts.pages import write_between_marks

import mebp
from mebp.inspect import inspect
from mebp.split import Server, connect
from mebp.tables import Table, megabytes
from mebp.tools import find_tool

HEADER = [
    "| in flight | seconds a step | as often as 1 | round trips alone, s | planned peak of the device, MB |",
    "| ---: |" + " ---: |" * 4,
]


def compile_halves(folder: Path, length: int) -> tuple[Path, Path]:
    exported, name = folder / "model" / "model.onnx", folder / f"smollm2-{length}.mebp"
    edge, cloud = (name.with_suffix(f".{half}.mebp") for half in ("edge", "cloud"))
    if not exported.exists():
        mebp.export("packaged:smollm2", exported, seq_len=length)
    if not cloud.exists():
        options = ["--adapter=private-lora", "--split=private-lora", "--lora-targets=q_proj,k_proj,v_proj"]
        options += ["--rank-down=32", "--rank-up=32", f"--seq-len={length}", "--weights=bf16", "--threads=1"]
        command = [find_tool("mebpc"), exported, "-o", name, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return edge, cloud


def measure(edge: Path, server: Server, count: int, arguments: argparse.Namespace) -> tuple[float, list[float], int]:
    """The median seconds of a step, all losses, and the device's planned peak."""
    stream = connect(edge, server, in_flight=count)
    if arguments.rtt or arguments.mbit:
        stream.shape(arguments.mbit, arguments.mbit, arguments.rtt / 2, 0, 0)
    session = mebp.Session(edge, stream=stream, threads=1, accumulate=True, return_gradients=False, lr=1e-3)
    random = np.random.default_rng(0)
    shape = (arguments.accumulate, 1, session.max_sequence)
    results = []
    for _ in range(arguments.steps + 1):
        ids = list(random.integers(0, session.vocabulary, shape, dtype=np.int32))
        results.append(session.step(ids, ids))
    seconds = statistics.median(result.seconds for result in results[1:])
    return seconds, [result.loss for result in results], session.plan["planned_peak_bytes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rtt", type=float, default=20, help="of a message and its answer, in ms (20)")
    parser.add_argument("--mbit", type=float, default=0, help="each way and for each stream; 0: as fast as it goes (0)")
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mebp-in-flight")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    edge, cloud = compile_halves(arguments.folder, arguments.seq_len)
    layers = sum(block["kind"] == "layer" for block in inspect(edge)["blocks"])
    server = Server(cloud, threads=1)
    rows, expected, one = [], None, None
    for count in arguments.in_flight:
        seconds, losses, peak = measure(edge, server, count, arguments)
        expected, one = expected or losses, one or seconds
        assert losses == expected, "the losses are others"
        waiting = -(-arguments.accumulate // count) * (2 * layers + 1) * arguments.rtt / 1e3
        rows.append([str(count), f"{seconds:.2f}", f"{one / seconds:.2f}", f"{waiting:.2f}", megabytes(peak)])
        print(f"{count} in flight: {seconds:.2f} s a step, {one / seconds:.2f} times as often", flush=True)
    title = f"accumulate {arguments.accumulate}, {arguments.seq_len} tokens, a round trip of {arguments.rtt:g} ms"
    print(Table(title, ["in flight", "s a step", "as often", "waiting, s", "planned MB"], rows))
    if arguments.markdown:
        lines = [*HEADER, *(f"| {' | '.join(row)} |" for row in rows)]
        write_between_marks(arguments.markdown, "bench/in_flight.py", lines)


if __name__ == "__main__":
    main()
