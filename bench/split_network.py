# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M over a device and a server, on networks from slow to fast: measured beside what mebp wire predicts.

    .venv/bin/python bench/split_network.py [--parts tokens prompts] [--rows 32] [--tokens 3] [--rounds 3]
        [--folder DIR] [--markdown docs/private-lora-latency.md]

Both halves run in this process, and the stream between them is as slow and far as asked (runtime/net/shaped.h). A
prediction is a time without a network, measured just before and after, and what bytes and round trips add to it. Shown
are the measured times, medians of all rounds, and measured over predicted, the median and the range. A prediction
lets nothing overlap, so a prompt, which crosses in two waves, takes less.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.pages import write_between_marks
from parts.split_bundles import Bundles, compile_both, export
from parts.spread import Spread

import mebp
from mebp.split import connect, served
from mebp.wire import Crossing, Network, Wire

RATES = ((1, 2), (5, 8), (20, 33), (60, 100), None)  # Mbit/s up and down
ROUND_TRIPS = (0, 5, 20, 50)  # ms
PROMPT, UNLIMITED = 8, 1e9
LENGTH = 128  # of the bundle: a prompt's pass
PARTS = ("tokens", "prompts")
HEADERS = {
    "tokens": [
        "| Mbit/s up, down | round trip | a decoded token | measured / predicted | a step | measured / predicted |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ],
    "prompts": [
        f"| Mbit/s up, down | round trip | a prompt of {LENGTH} tokens | measured / predicted |",
        "| --- | ---: | ---: | ---: |",
    ],
}


@dataclass
class Measured:
    seconds: list[float]
    ratios: list[float]

    def add(self, seconds: float, predicted: float) -> None:
        self.seconds.append(seconds)
        self.ratios.append(seconds / predicted)

    def describe(self) -> str:
        seconds = statistics.median(self.seconds)
        time = f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
        return f"{time} | {Spread.of(self.ratios).describe()}"


class Split:
    """Times of a session whose halves are joined by one network; None for none."""

    def __init__(self, bundles: Bundles, server: object, network: tuple[float, float, float] | None) -> None:
        stream = connect(bundles.edge, server)
        if network:
            up, down, round_trip = network
            stream.shape(up, down, round_trip / 2, 0, 0)
        self._session = mebp.Session(bundles.edge, stream=stream, threads=1, optimizer="sgd")
        random = np.random.default_rng(0)
        self._ids = random.integers(0, self._session.vocabulary, (1, self._session.max_sequence), dtype=np.int32)
        self.token(1)  # the first of each kind finds its memory

    def token(self, count: int) -> float:
        """Seconds of one decoded token, as the median of so many."""
        times: list[float] = []
        self._session.generate(self._ids[:, :PROMPT], count + 1, callback=lambda _: times.append(time.perf_counter()))
        return statistics.median(np.diff(times))

    def prompt(self) -> float:
        """Seconds until the first token behind it."""
        begun = time.perf_counter()
        self._session.generate(self._ids, 1)
        return time.perf_counter() - begun

    def step(self, rows: int) -> float:
        """Seconds of a training step whose rows all predict a label, but the last one."""
        begun = time.perf_counter()
        self._session.step(self._ids[:, :rows], self._ids[:, :rows])
        return time.perf_counter() - begun


def predict(crossing: Crossing, seconds: float, network: tuple[float, float, float]) -> float:
    up, down, round_trip = network
    return crossing.seconds(Network(up or UNLIMITED, down or UNLIMITED, round_trip), seconds * 1e3)["total"]


def ways_of(part: str, wire: Wire, arguments: argparse.Namespace) -> list[tuple[Crossing, Callable[[Split], float]]]:
    if part == "prompts":
        return [(wire.prompt(LENGTH), Split.prompt)]
    return [
        (wire.token(), lambda split: split.token(arguments.tokens)),
        (wire.step(arguments.rows, arguments.rows - 1), lambda split: split.step(arguments.rows)),
    ]


def measure(
    part: str, bundles: Bundles, rates: tuple[float, float], round_trip: float, arguments: argparse.Namespace
) -> list[str]:
    network = (*rates, round_trip)
    ways = ways_of(part, Wire(bundles.edge), arguments)
    found = [Measured([], []) for _ in ways]
    with served(bundles.cloud, threads=1) as server:
        near, far = Split(bundles, server, None), Split(bundles, server, network)
        for _, run in ways:
            run(near), run(far)
        for _ in range(arguments.rounds):
            for (crossing, run), measured in zip(ways, found, strict=True):
                before, seconds, after = run(near), run(far), run(near)
                measured.add(seconds, predict(crossing, (before + after) / 2, network))
        del near, far
    return [measured.describe() for measured in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mebp-split-network")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    model = export(arguments.folder, LENGTH)
    bundles = compile_both(model, "bf16", (0, 0), "--generate-len=160", "--weights=int8", "--optimizer=sgd")
    for part in arguments.parts:
        lines = list(HEADERS[part])
        print(*lines, sep="\n")
        for rates in RATES:
            for round_trip in ROUND_TRIPS:
                cells = measure(part, bundles, rates or (0, 0), round_trip, arguments)
                named = f"{rates[0]}, {rates[1]}" if rates else "no limit"
                lines.append(f"| {named} | {round_trip} ms | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
        try:
            if arguments.markdown:
                write_between_marks(arguments.markdown, f"bench/split_network.py: {part}", lines)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"split_network.py: {error}\n")
            sys.exit(2)


if __name__ == "__main__":
    main()
