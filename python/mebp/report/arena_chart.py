# SPDX-License-Identifier: Apache-2.0
"""The chart of one program's scratch arena: its kernel calls from left to right, addresses upwards, a box a tensor."""

from html import escape

from mebp.report.lifetimes import Tensor, Timeline
from mebp.report.svg import element, text, ticks
from mebp.tables import megabytes

WIDTH, HEIGHT = 960, 340
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 30, 34
_LETTER = 6.4  # pixels, of a label in a box


def draw_arena(timeline: Timeline, arena_bytes: int, name: str) -> str:
    return _ArenaChart(timeline, arena_bytes).draw(name)


class _ArenaChart:
    def __init__(self, timeline: Timeline, arena_bytes: int) -> None:
        self._timeline = timeline
        self._bytes = arena_bytes
        self._slot = (WIDTH - LEFT - RIGHT) / (len(timeline.ops) - 1)
        self._begins = {(tensor.offset, tensor.begin) for tensor in timeline.tensors}

    def draw(self, name: str) -> str:
        alive = set(self._timeline.alive_at(self._timeline.fullest))
        boxes = [self._box(tensor, tensor in alive) for tensor in self._timeline.tensors]
        parts = [*self._grid(), *boxes, *self._loops(), self._fullest()]
        label = f"The scratch arena of {name}: which tensor lies where, and for how long"
        return element("svg", "\n".join(parts), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)

    def _x(self, position: float) -> float:
        return LEFT + (position - 1) * self._slot  # nothing is in the arena before the first step

    def _y(self, offset: float) -> float:
        return HEIGHT - BOTTOM - offset / self._bytes * (HEIGHT - TOP - BOTTOM)

    def _grid(self) -> list[str]:
        parts = [text("MB", LEFT - 6, TOP - 10, class_="end")]
        for tick in ticks(self._bytes / 1e6):
            y = self._y(tick * 1e6)
            parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(text(f"{tick:g}", LEFT - 6, y + 4, class_="end"))
        return parts

    def _box(self, tensor: Tensor, at_fullest: bool) -> str:
        is_taken_over = tensor.end > tensor.begin and (tensor.offset, tensor.end) in self._begins
        x, width = self._x(tensor.begin), (tensor.end + (not is_taken_over) - tensor.begin) * self._slot
        y, height = self._y(tensor.offset + tensor.bytes), self._y(0) - self._y(tensor.bytes)
        about = f"{tensor.op}, {megabytes(tensor.bytes)} MB\n{tensor.source}"
        kind = "tensor at-fullest" if at_fullest else "tensor"
        box = element("rect", f"<title>{escape(about)}</title>", x=x, y=y, width=width, height=height, class_=kind)
        layer = tensor.source.split(".")[-1]
        label = _longest([f"{tensor.op}, {layer}" if layer else tensor.op, tensor.op], width - 8)
        if height < 13 or not label:
            return box
        return box + text(label, x + 5, y + min(height / 2 + 4, 14), class_="on small")

    def _loops(self) -> list[str]:
        parts = []
        for loop in self._timeline.loops:
            x, end, y = self._x(loop.begin), self._x(loop.end + 1), HEIGHT - BOTTOM + 5
            parts.append(element("path", d=f"M{x:.1f} {y}v5H{end:.1f}v-5", class_="loop"))
            label = f"loop over {loop.domain.replace('_', ' ')}, {loop.size:,} at a time"
            inner = any(other.begin < loop.begin and loop.end < other.end for other in self._timeline.loops)
            if not inner and _longest([label], end - x):
                parts.append(text(label, (x + end) / 2, HEIGHT - 6, class_="middle small"))
        return parts

    def _fullest(self) -> str:
        position = self._timeline.fullest
        x = self._x(position + 0.5)
        label = f"fullest: {megabytes(self._timeline.live_bytes[position])} MB at {self._timeline.ops[position]}"
        side = "end" if x > WIDTH / 2 else ""
        return element("line", x1=x, x2=x, y1=TOP - 16, y2=HEIGHT - BOTTOM, class_="leader") + text(
            label, x - 6 if side else x + 6, TOP - 12, class_=f"strong {side}".strip()
        )


def _longest(labels: list[str], width: float) -> str:
    return next((label for label in labels if len(label) * _LETTER <= width), "")
