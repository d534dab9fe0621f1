# SPDX-License-Identifier: Apache-2.0
"""The chart of all plans: what each budget of memory buys, as mebpc --frontier found it."""

import json
import math
from html import escape
from pathlib import Path

from mebp.errors import Error
from mebp.report.svg import element, text, ticks
from mebp.tables import megabytes

WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 44, 20, 28, 44
_KEYS = {
    "peak_bytes": (int, float),
    "seconds": (int, float),
    "file_bytes": (int,),
    "description": (str,),
    "spill": (str,),
    "kept_values": (str,),
}


def read_frontier(path: Path) -> list[dict]:
    """The points of what `mebpc --frontier --plan-json FILE` wrote. Raises mebp.Error where it is no such file."""
    try:
        points = json.loads(path.read_text(encoding="utf-8"))["frontier"]
        if not points or not all(type(point[key]) in kinds for point in points for key, kinds in _KEYS.items()):
            raise KeyError
        if not all(0 < point[key] < math.inf for point in points for key in ("peak_bytes", "seconds")):
            raise ValueError
    except OSError as error:
        raise Error(f"--frontier {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Error(f"--frontier {path}: is not what mebpc --frontier --plan-json FILE writes") from None
    return points


def draw_frontier(points: list[dict], peak_bytes: int) -> str:
    """`peak_bytes`: of the page's own plan, which is marked where it is among them."""
    low, high = points[0]["peak_bytes"], max(points[-1]["peak_bytes"], points[0]["peak_bytes"] * 1.01)
    slowest = max(point["seconds"] for point in points) * 1.05  # what spills may be faster than the next above it

    def x(count: float) -> float:
        return LEFT + 12 + math.log(count / low) / math.log(high / low) * (WIDTH - LEFT - RIGHT - 24)

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - seconds / slowest * (HEIGHT - BOTTOM - TOP)

    parts = [text("seconds a step", LEFT, TOP - 12)]
    for tick in ticks(slowest):
        parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(text(f"{tick:g}", LEFT - 6, y(tick) + 4, class_="end"))
    marks = [first * 10**power for power in range(3, 13) for first in (1, 1.5, 2, 3, 5, 7)]
    parts += [
        text(f"{count / 1e6:g}", x(count), HEIGHT - BOTTOM + 18, class_="middle")
        for count in marks
        if low <= count <= high
    ]
    parts.append(text("peak of mebp-run, MB", (LEFT + WIDTH) / 2, HEIGHT - 6, class_="middle"))
    path = "".join(
        f"{'M' if index == 0 else 'H'}{x(point['peak_bytes']):.1f}{' ' if index == 0 else 'V'}{y(point['seconds']):.1f}"
        for index, point in enumerate(points)
    )
    parts.append(element("path", d=path, class_="frontier"))
    for point in points:
        own = " own" if point["peak_bytes"] == peak_bytes else ""
        title = element("title", escape(_describe(point)))
        place = {"cx": x(point["peak_bytes"]), "cy": y(point["seconds"])}
        parts.append(element("circle", title, **place, r=5 if own else 3, class_=f"point{own}"))
    label = "Seconds of a training step against its peak memory, of every plan"
    return element(
        "svg", "\n".join(parts), id="frontier", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label
    )


def list_frontier(points: list[dict]) -> str:
    """A table of those that differ by a hundredth of a step's time at least, or in whether they spill."""
    rows, last = [], None
    for point in points:
        is_like = last is not None and point["spill"] == last["spill"]
        if is_like and point["seconds"] > 0.99 * last["seconds"] and point is not points[-1]:
            continue
        last = point
        rows.append(
            f'<tr><td class="number">{megabytes(point["peak_bytes"])}</td>'
            f'<td class="number">{point["seconds"]:.3g}</td><td>{escape(point["description"])}</td>'
            f'<td class="number">{megabytes(point["file_bytes"]) if point["file_bytes"] else ""}</td>'
            f"<td>{escape(point['kept_values'])}</td></tr>"
        )
    head = (
        '<tr><th class="number">peak, MB</th><th class="number">s a step</th><th>what a step does</th>'
        '<th class="number">to disk, MB</th><th>what layers keep</th></tr>'
    )
    return f'<table class="plans">{head}{"".join(rows)}</table>'


def _describe(point: dict) -> str:
    return f"{megabytes(point['peak_bytes'])} MB, {point['seconds']:.3g} s: {point['description']}"
