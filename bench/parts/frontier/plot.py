# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/frontier.py: peak against the time of a step."""

import statistics
from pathlib import Path

from parts.frontier.report import peers_of, seconds, usual

MARKERS = ["D", "s", "^", "v", "P"]


def draw(results: dict, path: Path) -> None:
    """A panel for each model and length."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = results["cells"]
    columns = min(2, len(cells))
    rows = -(-len(cells) // columns)
    figure, panels = pyplot.subplots(rows, columns, figsize=(5.2 * columns, 3.9 * rows), squeeze=False)
    for panel in panels.flat[len(cells) :]:
        panel.axis("off")
    for cell, panel in zip(cells, panels.flat, strict=False):
        points = cell["points"]
        peaks = [point["measured_bytes"] / 1e6 for point in points]
        measured = [statistics.median(seconds(cell, str(number))) for number in range(len(points))]
        predicted = ([point["peak_bytes"] / 1e6 for point in points], [point["seconds"] for point in points])
        panel.plot(*predicted, color="black", linewidth=1, linestyle=":", label="mebp, predicted")
        panel.plot(peaks, measured, "o-", color="#0b6e99", label="mebp, measured")
        free = int(usual(cell))
        panel.annotate("no budget", (peaks[free], measured[free]), (4, 6), textcoords="offset points", color="#0b6e99")
        for name, marker in zip(peers_of(cell), MARKERS, strict=False):
            peak = max(answer["peak_bytes"] for answer in cell["answers"][name]) / 1e6
            panel.plot(peak, statistics.median(seconds(cell, name)), marker, color="#6b6b6b", label=name)
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_title(f"{cell['model']}, {cell['tokens']:,} tokens", fontsize=10)
        panel.set_xlabel("peak memory of a step, MB; weights mapped" if panel in panels[-1] else "")
        panel.set_ylabel("seconds a step")
        panel.grid(alpha=0.3)
    panels.flat[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
