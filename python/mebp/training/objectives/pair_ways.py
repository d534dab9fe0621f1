# SPDX-License-Identifier: Apache-2.0
"""How pairs are run: chosen by lengths and memory.

What a completion's gradient is multiplied by depends on both completions of the pair. The backward is linear in it, so
it may come later:
  deferred     the chosen one runs forward and backward without its factor, the rejected one forward; then both are
               known. With one pair a step the gradient waits where the step's is summed, else it has room of its own.
               Where the chosen one's gradient lacks more than a factor, as ORPO's does, it is the rejected one's that
               waits.
  interleaved  both in one batch of two, where the bundle has room for that: no gradient waits, and two sequences are in
               memory. Short ones are faster so, by 18 % of 32 tokens and 3 % of 128, as long as little is padding.
  scored first the chosen one runs forward once more: where a budget has no room for a gradient that waits. For losses
               that need all pairs of a step, both do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEFERRED, INTERLEAVED, SCORED_FIRST = "deferred", "interleaved", "scored first"
CHOSEN, REJECTED = "chosen", "rejected"
MOST_PADDING = 0.1  # of the tokens, beyond which two sequences one after the other are faster
SHORT = 64  # tokens, up to which a batch of two is worth its memory
_ALIGNMENT = 64  # bytes, of what has a place in a session's memory


@dataclass(frozen=True)
class PairWay:
    name: str
    reason: str
    room: int = 0  # bytes of a gradient that waits beside the step's sum

    def __str__(self) -> str:
        return f"pairs: {self.name}: {self.reason}"


def gradient_bytes(description: Mapping) -> int:
    """Of all trainables, as mebp.inspect describes them."""
    sizes = (4 * each["rows"] * each["columns"] for each in description["trainables"])
    return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def padding_share(lengths: Sequence[tuple[int, int]]) -> float:
    """What pairs of these lengths have of padding, beside their tokens, when they run side by side."""
    tokens = sum(map(sum, lengths))
    return sum(2 * max(pair) for pair in lengths) / tokens - 1


def choose_way(
    *,
    needs_batch: bool,
    rows: int,
    lengths: Sequence[tuple[int, int]],
    several: bool,
    has_room: bool,
    waiting: int,
    waits: str,
) -> PairWay:
    """needs_batch: the loss needs all pairs of a step. rows: of the bundle's batch. lengths: of each pair's sequences.
    several: a step has more than one pair. has_room: for a gradient beside the step's sum, of `waiting` bytes.
    waits: whose it may be, CHOSEN or REJECTED.
    """
    megabytes, padding = f"{waiting / 1e6:.1f} MB", padding_share(lengths)
    if needs_batch:
        return PairWay(SCORED_FIRST, "the loss needs all pairs of a step, so each completion runs forward once more")
    if rows >= 2 and padding <= MOST_PADDING:
        longest = max(map(max, lengths))
        return PairWay(
            INTERLEAVED, f"both completions side by side, up to {longest} tokens each, {padding:.0%} padding"
        )
    what = f"the {waits} completion's gradient waits for the pair's coefficient"
    if not several:
        return PairWay(DEFERRED, f"{what} in the {megabytes} where the step's is summed")
    if has_room:
        return PairWay(DEFERRED, f"{what} in {megabytes} of its own", room=waiting)
    why = f"the budget has no {megabytes} for a gradient that waits"
    return PairWay(SCORED_FIRST, f"{why}, so the chosen completion runs forward once more")
