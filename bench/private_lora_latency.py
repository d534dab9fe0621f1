# SPDX-License-Identifier: Apache-2.0
"""What the paper of PrivateLoRA predicts for decoding, and what all messages and a network's latency make of it.

    .venv/bin/python bench/private_lora_latency.py [--markdown docs/private-lora-latency.md]
        [--plot docs/images/private_lora_latency.png]

Nothing is measured: times of the server and rates are the paper's own, and of each part the slower of computing and
reading its numbers is counted.
"""

import argparse
import sys
from pathlib import Path

from parts.pages import write_between_marks
from parts.split_decoding import (
    MODELS,
    PHONE_ALONE,
    ROUND_TRIPS,
    break_even,
    draw,
    latency_table,
    paper_table,
    tokens_per_second,
)

PAPER, LATENCY = "bench/private_lora_latency.py: paper", "bench/private_lora_latency.py: latency"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, help="the page that takes the tables")
    parser.add_argument("--plot", type=Path, help="the picture to write")
    arguments = parser.parse_args()
    tables = {PAPER: paper_table(), LATENCY: latency_table()}
    for table in tables.values():
        print(*table, "", sep="\n")
    model = MODELS[0]
    print(f"{model.name} over both is slower than on the phone alone, {PHONE_ALONE} tokens/s, from round trips of")
    slowest = ROUND_TRIPS[-1]
    print(f"{break_even(model):.1f} ms on; at {slowest} ms it does {tokens_per_second(model, slowest):.2f}")
    try:
        if arguments.markdown:
            for mark, table in tables.items():
                write_between_marks(arguments.markdown, mark, table)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"private_lora_latency.py: {error}\n")
        sys.exit(2)
    if arguments.plot:
        draw(arguments.plot)


if __name__ == "__main__":
    main()
