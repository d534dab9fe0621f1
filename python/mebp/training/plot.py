# SPDX-License-Identifier: Apache-2.0
"""The curve of a run as a picture."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.errors import translate_errors
from mebp.files import replaced_file
from mebp.outputs import MARK
from mebp.training.log import Evaluation, Record


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what matplotlib says of its cache of fonts, and of letters that a font lacks."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


with _quietly():
    from matplotlib.figure import Figure

_MANY_STEPS = 200  # of which single dots would be a blot
_TRAINING, _EVALUATION = "tab:blue", "tab:orange"


@dataclass(frozen=True)
class Curve:
    """What a picture draws of a run."""

    label: str = "loss (nats per token)"
    metric: str | None = None  # by its name; None for the loss

    def of(self, entry: Record | Evaluation) -> float | None:
        """None where it has none."""
        if self.metric is None:
            return entry.eval_loss if isinstance(entry, Evaluation) else entry.loss
        return entry.metrics.get(self.metric)


def plot_run(
    records: Sequence[Record], evaluations: Sequence[Evaluation], path: Path, title: str, curve: Curve | None = None
) -> None:
    """Each step's value, its running mean over about a tenth of the run (each step saw other text), and that of other
    data."""
    curve = curve or Curve()
    steps = np.array([record.step for record in records])
    losses = np.array([np.nan if curve.of(record) is None else curve.of(record) for record in records])
    evaluations = [evaluation for evaluation in evaluations if curve.of(evaluation) is not None]
    figure = Figure(figsize=(8, 4.5), layout="constrained")  # without pyplot, whose backend is the notebook's
    axes = figure.subplots()
    window = max(1, len(losses) // 10)
    smooth = window > 1
    axes.plot(
        steps,
        losses,
        color=_TRAINING,
        alpha=0.3 if smooth else 1.0,
        linewidth=1,
        marker="." if len(losses) < _MANY_STEPS else None,
        label="each step",
    )
    if smooth:
        means = np.convolve(losses, np.ones(window) / window, mode="valid")
        middles = (steps[window - 1 :] + steps[: len(means)]) / 2
        axes.plot(middles, means, color=_TRAINING, linewidth=2.5, label=f"mean of {window} steps")
    if evaluations:
        axes.plot(
            [evaluation.step for evaluation in evaluations],
            [curve.of(evaluation) for evaluation in evaluations],
            color=_EVALUATION,
            linewidth=2.5,
            marker="o",
            markersize=6,
            label="evaluation",
        )
    if smooth or evaluations:
        axes.legend(frameon=False, fontsize=12)
    axes.set_title(title, loc="left", fontsize=14, parse_math=False)  # a $ in a name is a $
    axes.set_xlabel("step", fontsize=12)
    axes.set_ylabel(curve.label, fontsize=12)
    axes.tick_params(labelsize=11)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    advice = "choose another --plot"
    unwritable = translate_errors(f"{path}: cannot be written", advice, ValueError)
    with unwritable, replaced_file(path, advice) as unfinished, _quietly():  # whose ending says which kind of picture
        figure.savefig(unfinished, dpi=150, **_marked(path))


def _marked(path: Path) -> dict:
    """Options that put MARK where each kind of picture has a place for it."""
    if path.suffix == ".jpg":
        return {"pil_kwargs": {"comment": MARK}}
    return {"metadata": {"Software" if path.suffix == ".png" else "Creator": MARK}}
