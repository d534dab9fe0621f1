# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/roofline.py: each kernel below the machine's limits."""

from pathlib import Path

from parts.roofline.limits import F32
from parts.roofline.report import shown

CEILING, DOT = "#6b6b6b", "#0b6e99"
TEXT, LINE, NAME = 7, 10, 110  # points: of a letter's height, from line to line, and of a name's length


def draw(results: dict, path: Path) -> None:
    """Flops a second over flops a byte; a dot's area is the kernel's share of the step."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot

    limits, kernels = results["limits"], {name: each for name, each in shown(results).items() if each.flops}
    intensity = [each.flops / each.bytes for each in kernels.values()]
    rate = [each.flops / each.seconds / 1e9 for each in kernels.values()]
    areas = [3000 * each.seconds / results["seconds"] + 12 for each in kernels.values()]
    figure, axes = pyplot.subplots(figsize=(8, 5.6), layout="constrained")
    axes.set_xscale("log")
    axes.set_yscale("log")
    over = np.geomspace(min(intensity) / 3, 20 * max(*intensity, limits["flops"] / limits["bytes"]), 400)
    ceilings = {limits["kind"]: limits["flops"], F32: limits["f32_flops"]}
    for kind, flops in ceilings.items():
        axes.plot(over, np.minimum(over * limits["bytes"], flops) / 1e9, color=CEILING, linewidth=1.2)
        name = f"{kind}, {flops / 1e9:,.0f} GFLOP/s"
        write(axes, name, (flops / limits["bytes"], flops / 1e9), (8, 3), color=CEILING)
    middle = (over[0] * limits["flops"] / limits["bytes"]) ** 0.5
    slope = f"memory, {limits['bytes'] / 1e9:,.1f} GB/s"
    write(axes, slope, (middle, middle * limits["bytes"] / 1e9), (-6, 3), ha="right", color=CEILING)
    axes.scatter(intensity, rate, areas, DOT, alpha=0.35, zorder=3)
    axes.set_xlim(over[0] / 1.2, over[-1] * 1.2)
    axes.set_ylim(min(rate) / 2, max(ceilings.values()) / 1e9 * 2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
    figure.canvas.draw()  # only now is it known where dots are
    name_dots(axes, results["seconds"], list(zip(kernels.items(), intensity, rate, areas, strict=True)))
    axes.set_xlabel("flops a byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{results['model']}, {results['tokens']:,} tokens, {results['machine']}", fontsize=9)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def write(axes, text: str, point: tuple, offset: tuple, **looks) -> None:
    axes.annotate(text, point, offset, textcoords="offset points", fontsize=TEXT, **looks)


def name_dots(axes, seconds: float, dots: list[tuple]) -> None:
    """From the top down, to the right of each dot. Those of dots too close for that stand in a column, with lines."""
    to_points = 72 / axes.figure.dpi
    groups: list[list[tuple]] = []
    for (name, kernel), x, y, area in sorted(dots, key=lambda dot: -dot[2]):
        left, height = axes.transData.transform((x, y)) * to_points
        dot = (f"{name}, {kernel.seconds / seconds:.1%}", (x, y), left, height, area**0.5 / 2)
        group = next((group for group in groups if any(is_close(dot, other) for other in group)), None)
        groups.append([dot]) if group is None else group.append(dot)
    for group in groups:
        column = max(left + radius for _, _, left, _, radius in group) + (15 if len(group) > 1 else 3)
        top = sum(height for _, _, _, height, _ in group) / len(group) + LINE * (len(group) - 1) / 2
        line = {"arrowstyle": "-", "color": DOT, "linewidth": 0.5, "shrinkA": 2, "shrinkB": 0, "relpos": (0, 0.5)}
        for number, (text, point, left, height, _) in enumerate(group):
            offset = (column - left, top - LINE * number - height)
            write(axes, text, point, offset, va="center", arrowprops=line if len(group) > 1 else None)


def is_close(one: tuple, other: tuple) -> bool:
    """Whether the name of one dot would be in the way of another's."""
    return abs(one[2] - other[2]) < NAME and abs(one[3] - other[3]) < 2 * LINE
