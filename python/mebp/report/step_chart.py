# SPDX-License-Identifier: Apache-2.0
"""The chart of one step: stages from left to right, what is in use stacked upwards."""

import re
from collections.abc import Iterator
from itertools import groupby

from mebp.report.step import Stage, TrainingStep
from mebp.report.svg import element, text, ticks
from mebp.tables import megabytes

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 44, 64
_READABLE = 15  # pixels of height that a label needs
_PHASES = {"forward": "forward", "objective": "loss", "recompute": "backward", "backward": "backward"}


def draw_step(step: TrainingStep, measured: int | None) -> str:
    """`measured`: the peak of the runtime alone, where it is known."""
    return _StepChart(step, measured).draw()


class _StepChart:
    def __init__(self, step: TrainingStep, measured: int | None) -> None:
        self._step = step
        self._measured = measured
        self._peak = sum(step.planned.values())
        self._most = max(self._peak, measured or 0) * 1.02
        self._slot = (WIDTH - LEFT - RIGHT) / len(step.stages)

    def draw(self) -> str:
        parts = [*self._grid(), *self._stack(), *self._strip(), *self._limits(), self._fullest(), *self._hover()]
        return element(
            "svg",
            "\n".join(parts),
            id="step",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label="Memory in use over one training step, stacked by arena",
        )

    def _x(self, stage: float) -> float:
        return LEFT + stage * self._slot

    def _y(self, count: float) -> float:
        return HEIGHT - BOTTOM - count / self._most * (HEIGHT - BOTTOM - TOP)

    def _grid(self) -> list[str]:
        parts = []
        for tick in ticks(self._most / 1e6):
            y = self._y(tick * 1e6)
            parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(text(f"{tick:g}", LEFT - 6, y + 4, class_="end"))
        return [*parts, text("MB", LEFT - 6, TOP - 8, class_="end")]

    def _stack(self) -> list[str]:
        """From the top down, each arena filled to the bottom, so that the next covers it."""
        columns = list(self._columns())
        parts = []
        for count in range(len(self._step.planned), 0, -1):
            outline, last = [f"M{LEFT} {self._y(0):.1f}"], None
            for begin, _, sizes in columns:
                height = f"{self._y(sum(sizes[:count])):.1f}"
                if height != last:
                    outline.append(f"H{begin:.2f}V{height}")
                last = height
            outline.append(f"H{columns[-1][1]:.2f}V{self._y(0):.1f}Z")
            parts.append(element("path", d="".join(outline), class_=f"arena {list(self._step.planned)[count - 1]}"))
        return [*parts, *self._names()]

    def _columns(self) -> Iterator[tuple[float, float, list[int]]]:
        """From where to where on the x axis, and the bytes in use by arena there."""
        for index, stage in enumerate(self._step.stages):
            count = len(self._step.timelines[stage.program].ops)
            for position in range(count):
                sizes = list(self._step.in_use(stage, position).values())
                yield self._x(index + position / count), self._x(index + (position + 1) / count), sizes

    def _names(self) -> list[str]:
        """On the bands that are high enough: at the left where they are the same throughout, and on the checkpoints
        where all are there."""
        parts, below = [], 0
        # The forward's last moment, in the half of a model that has no head, too.
        middle = sum(stage.kind in ("forward", "objective") for stage in self._step.stages) - 0.5
        for name, size in self._step.planned.items():
            x, kind = (self._x(middle), "on middle") if name == "checkpoints" else (LEFT + 8, "on")
            if self._y(0) - self._y(size) >= _READABLE:
                parts.append(text(f"{name} {megabytes(size)}", x, self._y(below + size / 2) + 4, class_=kind))
            below += size
            if name == "checkpoints":
                return parts
        return parts

    def _strip(self) -> list[str]:
        """Which block runs: a cell for each stage, and the phases under them."""
        y, parts = HEIGHT - BOTTOM + 6, []
        every = max(1, round(24 / self._slot))
        for index, stage in enumerate(self._step.stages):
            x = self._x(index)
            parts.append(element("rect", x=x, y=y, width=self._slot, height=10, class_=f"stage {stage.kind}"))
            number = re.search(r"\d+$", stage.block)
            if number and int(number[0]) % every == 0 and stage.kind != "recompute":
                parts.append(text(number[0], x + self._slot / 2, y + 24, class_="middle small"))
        index = 0
        for phase, run in groupby(self._step.stages, lambda stage: _PHASES[stage.kind]):
            count = len(list(run))
            parts.append(text(phase, self._x(index + count / 2), y + 44, class_="middle"))
            index += count
        return parts

    def _limits(self) -> list[str]:
        y = self._y(self._peak)
        parts = [
            element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="planned"),
            text(f"planned peak {megabytes(self._peak)} MB", LEFT + 8, y - 6, class_="strong"),
        ]
        if self._measured:
            y = self._y(self._measured)
            # Where little is in use yet, below either line.
            below = max(y, self._y(self._peak)) + 16
            parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="measured"))
            parts.append(text(f"measured {megabytes(self._measured)} MB", LEFT + 8, below, class_="strong measured"))
        return parts

    def _fullest(self) -> str:
        stage: Stage = self._step.fullest
        timeline = self._step.timelines[stage.program]
        x = self._x(self._step.stages.index(stage) + (timeline.fullest + 0.5) / len(timeline.ops))
        y = self._y(self._step.most_in_use)
        label = f"most in use: {megabytes(self._step.most_in_use)} MB, {stage.title}"
        side = "end" if x > WIDTH * 0.6 else ""
        return (
            element("line", x1=x, x2=x, y1=TOP - 22, y2=y, class_="leader")
            + element("circle", cx=x, cy=y, r=3.5, class_="mark")
            + text(label, x - 6 if side else x + 6, TOP - 24, class_=f"strong {side}".strip(), id="most-in-use")
        )

    def _hover(self) -> list[str]:
        return [
            element("line", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM, id="cursor", visibility="hidden"),
            element("rect", x=LEFT, y=TOP, width=WIDTH - LEFT - RIGHT, height=HEIGHT - TOP - BOTTOM, id="over"),
        ]
