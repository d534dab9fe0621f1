# SPDX-License-Identifier: Apache-2.0
"""How much of the way of sharded weights is hidden behind computing: SmolLM2-135M, 256 tokens, two processes.

    .venv/bin/python bench/shards.py [--rounds 5] [--markdown docs/distributed.md]

Regions come later by parts and multiples of a layer's measured forward. What shows of a delay d is, by the model of
mebp.distributed.placement, max(0, d - t) where the block before it computes for t: a forward on the way up to the head,
and two forwards on the way back. Rounds take turns; the first column is without a delay.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from parts.group_runs import LENGTH, run_for_json, smollm2
from parts.pages import write_between_marks
from parts.spread import Spread

FACTORS = 0.0, 0.25, 0.5, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        program = "-m", "parts.shard_delays", smollm2(Path(name)), LENGTH, arguments.rounds, *FACTORS
        found = run_for_json(2, *program)
    forward, asked, base = found["forward"], found["asked"], found["seconds"]["0.0"]
    lines = [
        f"| each of {asked} regions later by | a step, s | later by, s | of the delays hidden | by the model |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for factor in FACTORS:
        seconds = found["seconds"][str(factor)]
        later = Spread.of(one - other for one, other in zip(seconds, base, strict=True))
        delays, shows = factor * forward * asked, max(0.0, factor - 1) * forward * asked / 2
        hidden = f"{1 - later.median / delays:.0%}" if delays else ""
        lines.append(
            f"| {factor:g} of {forward * 1e3:.1f} ms | {statistics.median(seconds):.2f} | {later.describe()} "
            f"| {hidden} | {f'{1 - shows / delays:.0%}' if delays else ''} |"
        )
    print("\n".join(lines))
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/shards.py", lines)


if __name__ == "__main__":
    main()
