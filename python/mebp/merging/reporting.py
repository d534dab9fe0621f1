# SPDX-License-Identifier: Apache-2.0
"""What `mebp merge` says of a merged model's loss, and where it writes it: a GGUF file's metadata, and model cards."""

import math
from dataclasses import replace
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import GGUF_SUFFIX
from mebp.merging import MergeResult
from mebp.merging.cards import write_losses
from mebp.merging.served import Served, ServedLosses
from mebp.recompiling import Recompiled, measure_gguf, recompile
from mebp.words import say

_PREFIX = "mebp.loss."
_WRITTEN = "merged"
_NO_GAIN = "the adapter lowers no loss there, so there is nothing to lose; give other --data"


def numbers_to_come() -> dict[str, float]:
    """The keys of a GGUF file that has its losses, in nats per token; NaN until they are measured."""
    names = ("stored_base", "stored_adapter", "published_base", "published_adapter", _WRITTEN)
    return {_PREFIX + name: math.nan for name in names}


def report_losses(served: Served, output: Path, dtype: str, result: MergeResult) -> None:
    """Measures, says and writes them. What cannot be measured is said in one line: what was asked for is there."""
    is_gguf = output.suffix == GGUF_SUFFIX
    try:
        losses = served.losses
        found = measure_gguf(served, output, served.stage) if is_gguf else recompile(served, output, served.stage)
    except Error as error:
        say(f"{'what the file loses' if is_gguf else 'what compiling it again loses'} was not measured: {error}")
        return
    named = f"merged onto {result.onto}, {dtype}"
    losses = replace(losses, written={named: found.written})
    say(losses.table())
    if losses.unmeasured:
        say(f"the published weights were not measured: {losses.unmeasured}")
    elif served.published.differs:
        say(f"note: its '{served.published.differs}' is not what {served.bundle} was made of: {served.published.model}")
    try:
        if is_gguf:
            _set_numbers(output, losses, found.written)
        write_losses(served.adapter, output, losses)
    except Error as error:  # what was asked for is there
        say(f"note: the losses were not written down: {error}")
    if found.merged:
        say(_report_gguf(found, dtype) if is_gguf else _report(found))
    if advice := losses.advice(result.onto):
        say(advice)


def _set_numbers(file: Path, losses: ServedLosses, written: float) -> None:
    from mebp.gguf.numbers import set_numbers

    set_numbers(file, {_PREFIX + name: value for name, value in {**losses.numbers(), _WRITTEN: written}.items()})


def _report(found: Recompiled) -> str:
    losses = ", ".join(f"{loss:.4f} as {storage}" for storage, loss in found.merged.items())
    before = f"as the bundle computes: {found.base:.4f} without the adapter, {found.trained:.4f} with it"
    lines = [f"{before}; merged and compiled again: {losses}"]
    own, advised = next(iter(found.merged)), found.advised
    again = f"compiled again with --weights {own}, it keeps"
    if found.gain <= 0:
        lines.append(_NO_GAIN)
    elif advised == own:
        lines.append(f"{again} the training")
    else:
        share = max(found.kept(own), 0)
        other = f"compile with --weights {advised or 'f32'}, or leave it unmerged"
        lines.append(f"{again} {share:.0%} of what was gained; {other}")
    return "\n".join(lines)


def _report_gguf(found: Recompiled, dtype: str) -> str:
    if found.gain <= 0:
        return _NO_GAIN
    if found.advised:
        return f"as {dtype} it keeps the training"
    share = max(found.kept("f32"), 0)
    return (
        f"as {dtype} it keeps {share:.0%} of what was gained; take a --dtype of more bits, or leave it unmerged: "
        "mebp adapter convert --to gguf"
    )
