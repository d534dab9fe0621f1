# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of bench/memory.py; its Cell and Peft say what the fields are."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HEADER = (
    "| shape | tokens | budget | plan | at every kernel call | polled | clean pages | s a step "
    "| without a budget: plan | s a step | time ratio | MeSP |"
)
OURS, THEIRS, PEFT = "#0b6e99", "#c2571a", "#6b6b6b"


def megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f}"


def table(cells: list) -> list[str]:
    """Markdown, a line each; MB."""
    lines = [HEADER, "| --- |" + " ---: |" * 11]
    for cell in cells:
        lines.append(
            f"| {cell.shape} | {cell.length:,} | {cell.budget} | {megabytes(cell.planned)} "
            f"| {megabytes(cell.sampled)} | {megabytes(cell.polled.written)} | {megabytes(cell.polled.clean)} "
            f"| {cell.seconds:.1f} | {megabytes(cell.fastest_planned)} | {cell.fastest_seconds:.1f} "
            f"| {cell.ratio:.2f} | {cell.mesp} |"
        )
    return lines


def peft_table(runs: list) -> list[str]:
    """Markdown, a line each; MB. Nothing where there are none."""
    if not runs:
        return []
    lines = ["| PEFT | tokens | polled | clean pages | s a step |", "| --- |" + " ---: |" * 4]
    for run in runs:
        lines.append(
            f"| {run.shape} | {run.length:,} | {megabytes(run.polled.written)} | {megabytes(run.polled.clean)} "
            f"| {run.seconds:.1f} |"
        )
    return lines


def draw(cells: list, peft: list, path: Path) -> None:
    """A row for each shape and length, on a logarithmic axis: the ratios are what matters."""
    figure, axes = plt.subplots(figsize=(8, 0.62 * len(cells) + 1.5), layout="constrained")
    rows = {(cell.shape, cell.length): -number for number, cell in enumerate(cells)}

    def mark(points: list[tuple[tuple, float]], color: str, marker: str, label: str) -> None:
        axes.scatter([value for _, value in points], [rows[key] for key, _ in points], 55, color, marker, zorder=3)
        axes.scatter([], [], 55, color, marker, label=label)
        for key, value in points:
            axes.annotate(
                f"{value:,.0f}", (value, rows[key]), (0, 10), textcoords="offset points", ha="center", color=color
            )

    mark([((cell.shape, cell.length), cell.sampled / 1e6) for cell in cells], OURS, "o", "mebp, measured")
    mark([((cell.shape, cell.length), cell.mesp) for cell in cells], THEIRS, "s", "MeSP, as published")
    if peft:
        points = [((run.shape, run.length), run.polled.written / 1e6) for run in peft]
        mark(points, PEFT, "D", "PEFT with gradient checkpointing, measured")
    plans = [cell.planned / 1e6 for cell in cells]
    axes.scatter(plans, list(rows.values()), 260, "black", "|", linewidths=1.3, zorder=4, label="mebp, planned")
    axes.set_xscale("log")
    axes.set_yticks(list(rows.values()), [f"{shape}, {length:,} tokens" for shape, length in rows])
    axes.set_ylim(min(rows.values()) - 0.5, 0.75)
    axes.set_xlabel("peak memory of a training step, MB: anonymous and written pages, weights mapped")
    axes.set_xticks(ticks := [20, 50, 100, 200, 500, 1000, 2000, 5000], [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color="#dddddd", zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
