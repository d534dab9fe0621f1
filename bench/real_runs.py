# SPDX-License-Identifier: Apache-2.0
"""Whether families of models learn: a small one of each, with random weights, makes the demo's run.

    .venv/bin/python bench/real_runs.py [--families NAME ...] [--seed N] [--folder DIR] [--markdown docs/recurrences.md]

Each has the tokenizer of the demo's model and layers of both kinds. `mebp export` and `mebpc` (int4, bf16) make a
bundle; `mebp train` learns a LoRA adapter from examples/brindle_rock.jsonl, once whole, and once killed with -9 at a
random step and resumed. `mebp merge` writes what came of that. Ends with status 1 where a last loss is not under a
tenth of the first one, an adapter or a state differs in a bit, or an answer differs from transformers'.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.real_run import HEADER, NAMES, Training, run

MARK = "bench/real_runs.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--families", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"{', '.join(NAMES)} (all)"
    )
    parser.add_argument(
        "--seed", type=int, help="of the steps at which runs are killed (a random one, which is printed)"
    )
    parser.add_argument("--folder", type=there, help="for what is made meanwhile; a temporary one")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="the page of the table")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", *HEADER, sep="\n", flush=True)
    results = []
    for family in arguments.families:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
            results.append(run(family, Path(scratch), Training(), seed))
        print(results[-1].row(), flush=True)
    if arguments.markdown:
        table = [*HEADER, *(result.row() for result in results)]
        write_between_marks(
            arguments.markdown, MARK, merge_tables(read_between_marks(arguments.markdown, MARK), table, keys=1)
        )
    sys.exit(0 if all(result.passes for result in results) else 1)


if __name__ == "__main__":
    main()
