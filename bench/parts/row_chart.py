# SPDX-License-Identifier: Apache-2.0
"""What pictures of benchmarks share: named rows over a logarithmic axis, since ratios are what matters."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def start(names: list[str], row_height: float, margin: float):
    """A figure (8 inches wide), its axes, and the height at which each named row lies; heights in inches."""
    heights = {name: -number for number, name in enumerate(names)}
    figure, axes = plt.subplots(figsize=(8, row_height * len(heights) + margin), layout="constrained")
    axes.set_xscale("log")
    return figure, axes, heights


def save(figure, axes, heights: dict[str, int], headroom: float, label: str, ticks: list[int], path: Path) -> None:
    """Names the rows, ticks and the axis, and writes the picture; `headroom` is above the first row, in rows."""
    axes.set_yticks(list(heights.values()), list(heights))
    axes.set_ylim(min(heights.values()) - 0.5, headroom)
    axes.set_xlabel(label)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color="#dddddd", zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
