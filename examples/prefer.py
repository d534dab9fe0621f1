# SPDX-License-Identifier: Apache-2.0
"""Counts the pairs of which a bundle finds the chosen answer likelier than the rejected one.

    python examples/prefer.py NAME.mebp --pairs FILE [--adapter DIR]

FILE has pairs as `mebp train --objective dpo` takes them. An answer counts by the mean log-probability of its tokens,
so that a longer one is not less likely for its length.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import mebp
from mebp.data.preferences import Preference, load_preferences
from mebp.tokenizer import Tokenizer


def mean_logp(session: mebp.Session, prompt: np.ndarray, answer: np.ndarray) -> float:
    """In nats a token."""
    ids = np.concatenate([prompt, answer])[None]
    return float(session.logprobs(ids, np.arange(ids.shape[1])[None] >= len(prompt)).sum() / len(answer))


def is_right(session: mebp.Session, pair: Preference) -> bool:
    return mean_logp(session, pair.prompt, pair.chosen) > mean_logp(session, pair.prompt, pair.rejected)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp")
    parser.add_argument("--pairs", type=Path, required=True, metavar="FILE")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="a PEFT adapter of the bundle")
    arguments = parser.parse_args()
    try:
        session = mebp.Session(arguments.bundle, forward_only=True)
        if arguments.adapter:
            session.load_adapter(arguments.adapter)
        pairs = load_preferences(arguments.pairs, Tokenizer(arguments.bundle), session.max_sequence).rows
        right = sum(is_right(session, pair) for pair in pairs)
    except mebp.Error as error:
        print(f"prefer.py: {error}", file=sys.stderr)
        return 2
    print(f"of {right} in {len(pairs)} pairs the chosen answer is likelier ({right / len(pairs):.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
