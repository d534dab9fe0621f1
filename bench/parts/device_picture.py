# SPDX-License-Identifier: Apache-2.0
"""Two devices' losses, step by step, and how far they are apart."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(losses: dict[str, list[float]], path: Path) -> None:
    """`losses` by device, of which the first is what the other is compared with."""
    (first, truth), (second, other) = losses.items()
    steps = range(1, len(truth) + 1)
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8, 5.5), sharex=True, layout="constrained", height_ratios=[2, 1]
    )
    above.plot(steps, truth, color="tab:blue", linewidth=5, alpha=0.35, label=first)
    above.plot(steps, other, color="tab:orange", linewidth=1.5, marker=".", label=second)
    above.set_ylabel("loss (nats per token)")
    above.legend(frameon=False)
    apart = [abs(b - a) / a for a, b in zip(truth, other, strict=True)]
    below.plot(steps, apart, color="tab:gray", marker=".")
    below.set_yscale("log")
    below.set_ylabel("relative difference")
    below.set_xlabel("step")
    below.set_xticks([step for step in steps if step == 1 or step % 5 == 0])
    for axes in (above, below):
        axes.grid(axis="y", color="#dddddd")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
