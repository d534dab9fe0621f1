# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of bench/slope.py. Slopes and picture come from the table of peaks alone."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from parts.pages import cells
from parts.shapes import SHAPES

MARGIN = 1.15
COLORS = ("#0b6e99", "#c2571a", "#5b8c2a")
Points = list[tuple[int, float]]  # tokens and bytes


def peaks_table(rows: list[tuple[str, int, int, int | None]]) -> list[str]:
    """Markdown, a line each; MB. Rows of shape, tokens, planned and measured bytes."""
    lines = ["| shape | tokens | plan | at every kernel call |", "| --- |" + " ---: |" * 3]
    for shape, length, planned, measured in rows:
        seen = "" if measured is None else f"{measured / 1e6:,.2f}"
        lines.append(f"| {shape} | {length:,} | {planned / 1e6:,.2f} | {seen} |")
    return lines


def read_peaks(table: list[str]) -> dict[str, tuple[Points, Points]]:
    """For each shape what is planned, and what is measured, by rising length."""
    shapes = {}
    for row in table[2:]:
        shape, *numbers = cells(row)
        length, *peaks = (float(number.replace(",", "")) if number else None for number in numbers)
        for points, peak in zip(shapes.setdefault(shape, ([], [])), peaks, strict=True):
            if peak is not None:
                points.append((int(length), peak * 1e6))
    return {shape: (sorted(planned), sorted(measured)) for shape, (planned, measured) in shapes.items()}


def slope(points: Points) -> float | None:
    """Bytes a token, by least squares; nothing where there are fewer than two lengths."""
    return float(np.polyfit(*zip(*points, strict=True), 1)[0]) if len(points) > 1 else None


def token_bytes(name: str) -> int:
    """What a token costs where layers run in chunks: a row of the gradient in bf16; keys and values in bf16, their
    gradients in f32; two numbers for each head."""
    shape = SHAPES[name]
    return 2 * shape.hidden + 12 * (shape.hidden // shape.heads * shape.kv_heads) + 8 * shape.heads


def slopes_table(peaks: list[str]) -> list[str]:
    """Markdown, a line each; bytes a token."""
    lines = ["| shape | 2 hidden + 12 kv + 8 heads | with 15% | planned | measured |", "| --- |" + " ---: |" * 4]
    for name, points in read_peaks(peaks).items():
        planned, measured = ("" if (found := slope(each)) is None else f"{found:,.0f}" for each in points)
        least = token_bytes(name)
        lines.append(f"| {name} | {least:,} | {MARGIN * least:,.0f} | {planned} | {measured} |")
    return lines


def draw(peaks: list[str], path: Path) -> None:
    """Peaks against length, and from each shape's shortest the line that the bound allows."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for (name, (planned, measured)), color in zip(read_peaks(peaks).items(), COLORS, strict=False):
        lengths, bytes_planned = map(np.array, zip(*planned, strict=True))
        axes.plot(lengths, bytes_planned / 1e6, color=color, linewidth=1.6)
        bound = bytes_planned[0] + MARGIN * token_bytes(name) * (lengths - lengths[0])
        axes.plot(lengths, bound / 1e6, color=color, linewidth=1, linestyle=(0, (4, 3)))
        for length, seen in measured:
            axes.scatter(length, seen / 1e6, 45, color, zorder=3)
        label = name if len(planned) < 2 else f"{name}\n{slope(planned):,.0f} bytes a token"
        end = (lengths[-1], bytes_planned[-1] / 1e6)
        axes.annotate(label, end, (10, 0), textcoords="offset points", va="center", color=color)
    axes.plot([], [], color="#444444", linewidth=1.6, label="planned")
    axes.scatter([], [], 45, "#444444", label="measured at every kernel call")
    axes.plot([], [], color="#444444", linewidth=1, linestyle=(0, (4, 3)), label="bound")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tokens of a sequence")
    axes.set_ylabel("peak of a step, MB")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.grid(color="#dddddd", zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper left", frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
