# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/memory.py, drawn from its tables."""

from pathlib import Path

from parts import row_chart
from parts.pages import cells

ABOVE, BELOW = (0, 10), (0, -18)  # where a marker's figure stands
OURS = ("mebp, measured", "#0b6e99", "o", ABOVE)
MESP = ("MeSP, as published", "#c2571a", "s", ABOVE)
OTHERS = {
    "PEFT": ("PEFT with gradient checkpointing, measured", "#6b6b6b", "D", ABOVE),
    "StreamBP": ("StreamBP, measured", "#5b8c2a", "^", BELOW),
}


def column(table: list[str], name: str) -> list[float]:
    """In MB."""
    place = cells(table[0]).index(name)
    return [float(cells(row)[place].replace(",", "")) for row in table[2:]]


def row_names(table: list[str]) -> list[str]:
    names = cells(table[0])
    shape, tokens = names.index("shape"), names.index("tokens")
    return [f"{cells(row)[shape]}, {cells(row)[tokens]} tokens" for row in table[2:]]


def draw(plans: list[str], others: list[str], path: Path) -> None:
    """A row for each shape and length of `plans`."""
    figure, axes, heights = row_chart.start(row_names(plans), row_height=0.62, margin=1.5)

    def mark(names: list[str], values: list[float], label: str, color: str, marker: str, offset: tuple) -> None:
        points = [(value, heights[name]) for name, value in zip(names, values, strict=True) if name in heights]
        axes.scatter(*zip(*points, strict=True), 55, color, marker, zorder=3, label=label)
        for value, height in points:
            axes.annotate(
                f"{value:,.0f}", (value, height), offset, textcoords="offset points", ha="center", color=color
            )

    mark(row_names(plans), column(plans, "at every kernel call"), *OURS)
    mark(row_names(plans), column(plans, "MeSP"), *MESP)
    for system, look in OTHERS.items():
        table = [*others[:2], *(row for row in others[2:] if cells(row)[0] == system)]
        if set(row_names(table)) & set(heights):
            mark(row_names(table), column(table, "polled"), *look)
    planned = (column(plans, "plan"), list(heights.values()))
    axes.scatter(*planned, 260, "black", "|", linewidths=1.3, zorder=4, label="mebp, planned")
    label = "peak memory of a training step, MB: anonymous and written pages, weights mapped"
    row_chart.save(figure, axes, heights, 0.75, label, [20, 50, 100, 200, 500, 1000, 2000, 5000], path)
