# SPDX-License-Identifier: Apache-2.0
"""A judgement as a terminal shows it."""

from collections.abc import Sequence

from mebp.judging.gates import Condition
from mebp.judging.judgement import MOST_CHANGED, Judgement
from mebp.merging.served import ServedLosses
from mebp.words import printable

_WIDE = 60  # characters of a text


def told(
    judgement: Judgement,
    gate: Sequence[Condition] = (),
    changed: int = MOST_CHANGED,
    served: ServedLosses | None = None,
) -> list[str]:
    """A line each; of the answers that changed most, up to `changed`."""
    lines = [f"{judgement.headline()}{judgement.table()}"]
    changes = judgement.changes[:changed]
    if changes:
        lines += ["", f"answers that changed most, {len(changes)} of {len(judgement.changes):,}"]
    for each in changes:
        lines.append(f"  > {_short(each.question.shown)}")
        for mark, answer in (("-", each.before), ("+", each.after)):
            lines.append(f"  {mark} {_short(answer.text)} ({answer.word})")
    if served:
        lines += ["", *served.table().splitlines()]
        if served.unmeasured:
            lines.append(f"the published weights were not measured: {served.unmeasured}")
    lines += [""] * bool(gate)
    for condition in gate:
        word = "holds" if condition.holds(judgement.figures) else "fails"
        lines.append(f"gate {condition}: {judgement.figures[condition.name]:.4f}, {word}")
    return lines


def _short(text: str) -> str:
    line = printable(" ".join(text.split())) or "(an empty answer)"
    return line if len(line) <= _WIDE else f"{line[:_WIDE]}..."
