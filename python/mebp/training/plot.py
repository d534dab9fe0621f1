# SPDX-License-Identifier: Apache-2.0
"""The loss curve as a picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402, the backend must be chosen before

from mebp.errors import Error
from mebp.training.log import Record


def plot_loss(records: Sequence[Record], path: Path, title: str) -> None:
    """Each step's loss, and its running mean over about a tenth of the run (each step saw other text)."""
    steps = np.array([record.step for record in records])
    losses = np.array([record.loss for record in records])
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot(steps, losses, color="tab:blue", alpha=0.35, linewidth=1, marker=".", markersize=4, label="each step")
    window = max(1, len(losses) // 10)
    if window > 1:
        means = np.convolve(losses, np.ones(window) / window, mode="valid")
        middles = (steps[window - 1 :] + steps[: len(means)]) / 2
        axes.plot(middles, means, color="tab:blue", linewidth=2, label=f"mean of {window} steps")
        axes.legend(frameon=False)
    axes.set_title(title, loc="left")
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per token)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Error(f"{path}: cannot be written ({reason}); choose another --plot") from error
    finally:
        plt.close(figure)
