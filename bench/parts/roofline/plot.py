# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/roofline.py: each kernel below the machine's limits."""

from pathlib import Path

from parts.roofline.report import shown

CEILING, DOT = "#6b6b6b", "#0b6e99"


def draw(results: dict, path: Path) -> None:
    """Flops a second over flops a byte; a dot's area is the kernel's share of the step."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot

    limits = results["limits"]
    kernels = {name: each for name, each in shown(results).items() if each.flops}
    intensity = [each.flops / each.bytes for each in kernels.values()]
    rate = [each.flops / each.seconds / 1e9 for each in kernels.values()]
    figure, axes = pyplot.subplots(figsize=(8, 5.6), layout="constrained")
    low, high = min(intensity) / 3, max(*intensity, limits["flops"] / limits["bytes"]) * 4
    over = np.geomspace(low, high, 200)
    ceilings = {limits["kind"]: limits["flops"], "f32 FMA": limits["f32_flops"]}
    for number, (kind, flops) in enumerate(ceilings.items()):
        axes.plot(over, np.minimum(over * limits["bytes"], flops) / 1e9, color=CEILING, linewidth=1.5 - number / 2)
        where = (high, flops / 1e9)
        text = f"{kind}, {flops / 1e9:,.0f} GFLOP/s"
        axes.annotate(text, where, (-4, 4), textcoords="offset points", ha="right", color=CEILING, fontsize=8)
    axes.scatter(intensity, rate, [3000 * each.seconds / results["seconds"] + 12 for each in kernels.values()],
                 color=DOT, alpha=0.35, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name, x, y in zip(kernels, intensity, rate, strict=True):
        axes.annotate(name, (x, y), fontsize=7)
    axes.set_xlabel("flops a byte")
    axes.set_ylabel("GFLOP/s")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
