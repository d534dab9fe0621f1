# SPDX-License-Identifier: Apache-2.0
"""The curve of a run as a picture."""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MANY_STEPS = 200  # of which single dots would be a blot
_TRAINING, _EVALUATION = "tab:blue", "tab:orange"


_RATE = "lr"


@dataclass(frozen=True)
class Curve:
    """What a picture draws of a run."""

    label: str = "loss (nats per token)"
    metric: str | None = None  # by its name; None for the loss

    def of(self, entry: Record | Evaluation) -> float | None:
        """None where it has none."""
        if self.metric == _RATE:
            return getattr(entry, _RATE, None)
        if self.metric is None:
            return entry.eval_loss if isinstance(entry, Evaluation) else entry.loss
        return entry.metrics.get(self.metric)


def curves_of(first: Sequence[str], watched: Mapping[str, str]) -> list[Curve]:
    """What is looked at most, as Curve takes it, then what else is watched, by its words, and the learning rate."""
    main = Curve(*first)
    others = [Curve(word, metric) for word, metric in watched.items() if metric != main.metric]
    return [main, *others, Curve("learning rate", _RATE)]


def plot_run(
    records: Sequence[Record],
    evaluations: Sequence[Evaluation],
    path: Path,
    title: str,
    curves: Sequence[Curve] = (Curve(), Curve("learning rate", _RATE)),
) -> None:
    """Of each curve a panel, the first the largest: each step's value, its running mean over about a tenth of the run
    (each step saw other text), and that of other data."""
    below = len(curves) - 1
    # without pyplot, whose backend is the notebook's
    figure = Figure(figsize=(8, 4.5 + 1.4 * below), layout="constrained")
    panels = figure.subplots(1 + below, 1, sharex=True, height_ratios=[3.2] + [1] * below, squeeze=False)[:, 0]
    for curve, axes in zip(curves, panels, strict=True):
        _draw(curve, records, evaluations, axes)
        axes.tick_params(labelsize=11)
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if panels[0].get_legend_handles_labels()[1] != ["each step"]:
        panels[0].legend(frameon=False, fontsize=12)
    panels[0].set_title(title, loc="left", fontsize=14, parse_math=False)  # a $ in a name is a $
    panels[-1].set_xlabel("step", fontsize=12)
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    figure.align_ylabels(panels)
    advice = "choose another --plot"
    unwritable = translate_errors(f"{path}: cannot be written", advice, ValueError)
    with unwritable, replaced_file(path, advice) as unfinished, _quietly():  # whose ending says which kind of picture
        figure.savefig(unfinished, dpi=150, **_marked(path))


def _draw(curve: Curve, records: Sequence[Record], evaluations: Sequence[Evaluation], axes: Axes) -> None:
    steps = np.array([record.step for record in records])
    values = np.array([np.nan if curve.of(record) is None else curve.of(record) for record in records])
    axes.set_ylabel(curve.label, fontsize=12)
    if curve.metric == _RATE:
        axes.plot(steps, values, color=_TRAINING, linewidth=2)
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
        return
    evaluations = [evaluation for evaluation in evaluations if curve.of(evaluation) is not None]
    window = max(1, len(values) // 10)
    smooth = window > 1
    axes.plot(
        steps,
        values,
        color=_TRAINING,
        alpha=0.3 if smooth else 1.0,
        linewidth=1,
        marker="." if len(values) < _MANY_STEPS else None,
        label="each step",
    )
    if smooth:
        means = np.convolve(values, np.ones(window) / window, mode="valid")
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


def _marked(path: Path) -> dict:
    """Options that put MARK where each kind of picture has a place for it."""
    if path.suffix == ".jpg":
        return {"pil_kwargs": {"comment": MARK}}
    return {"metadata": {"Software" if path.suffix == ".png" else "Creator": MARK}}
