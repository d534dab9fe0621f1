# SPDX-License-Identifier: Apache-2.0
"""How tokens are chosen and computed, as the commands that generate text take it."""

import argparse
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from mebp.words import counted, say

if TYPE_CHECKING:
    from mebp.generation import Kept


def add_sampling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="X",
        help="0 takes the likeliest token; above 0, tokens are sampled (default: 0)",
    )
    parser.add_argument("--top-k", type=int, metavar="N", help="sample from the N likeliest tokens (default: all)")
    parser.add_argument(
        "--top-p",
        type=float,
        metavar="X",
        help="sample from the likeliest tokens that together reach probability X (default: 1)",
    )
    parser.add_argument(
        "--min-p",
        type=float,
        metavar="X",
        help="sample from tokens that are at least X times as likely as the likeliest (default: all)",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="X",
        help="above 1, make tokens that were there less likely (default: 1)",
    )
    parser.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end an answer before this text; repeat for several",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed for sampling (default: 0)")
    parser.add_argument(
        "--drafts",
        type=int,
        default=0,
        metavar="N",
        help="where the text repeats itself, compute up to N tokens ahead in one pass; the answer stays the same "
        "(default: 0)",
    )


def sampling(arguments: argparse.Namespace) -> dict[str, object]:
    """The options of Session.generate that were given."""
    return {
        "temperature": arguments.temperature,
        "top_k": arguments.top_k,
        "top_p": arguments.top_p,
        "min_p": arguments.min_p,
        "repetition_penalty": arguments.repetition_penalty,
        "stop": arguments.stop,
        "seed": arguments.seed,
        "drafts": arguments.drafts,
    }


def check_sampling(arguments: argparse.Namespace) -> None:
    """Raises mebp.Error for what cannot be meant, before anything is read."""
    from mebp.generation import Sampler
    from mebp.numbers import whole_number
    from mebp.streaming import stop_strings

    given = sampling(arguments)
    stop_strings(given.pop("stop"))
    whole_number("drafts", given.pop("drafts"), at_least=0)
    Sampler(**given)


def note_empty(text: str, tokens: Sequence[int], has_stopped: bool, ends: Collection[int], advice: str = "") -> None:
    """Says why an answer of these tokens has no text, where it has none."""
    if text or not tokens:
        return
    if has_stopped:
        why = "it begins with a text of --stop"
    elif tokens[0] in ends:
        why = f"the model ended it with its first token{advice}"
    else:
        why = f"no text is left of its {counted(len(tokens), 'token')}, which are white space or unfinished characters"
    say(f"mebp: note: the answer is empty: {why}", error=True)


def note_passes(source: "Kept | None") -> None:
    """Says how much drafts have saved, where there were any."""
    if source and source.passes:
        say(
            f"mebp: note: drafts gave {source.tokens / source.passes:.2f} tokens a pass, {source.tokens:,} in "
            f"{source.passes:,}",
            error=True,
        )
