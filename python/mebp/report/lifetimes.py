# SPDX-License-Identifier: Apache-2.0
"""When each value of a program is alive: compiler/plan decides by it, and here it is found again from the bundle.

A value begins where it is defined and ends at its last reader. A reader inside a loop that does not contain the
definition reads again in every trip, so the value lives to the loop's end. A slice's readers read what it looks into.
"""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Tensor:
    """A value in the scratch arena, from position `begin` up to and including `end`."""

    op: str
    source: str  # the layer
    bytes: int
    offset: int
    begin: int
    end: int


@dataclass(frozen=True)
class Loop:
    """Its first and last position; drawn once, whatever its trips."""

    domain: str
    size: int
    begin: int
    end: int


class Timeline:
    """The steps of a program (one of mebp.inspect's) in order; position 0 is where its inputs are there already."""

    def __init__(self, program: dict) -> None:
        self.ops = [""]  # by position
        self.loops: list[Loop] = []
        self._tensors = program["tensors"]
        self._begin: dict[int, int] = {}
        self._end: dict[int, int] = {}
        self._definer: dict[int, str] = {}
        self._home: dict[int, tuple[int, ...]] = {}  # the loops around a value's definition
        self._viewed: dict[int, int] = {}
        self._loop_ends: dict[int, int] = {}
        self._reads: list[tuple[int, int, tuple[int, ...]]] = []  # value, position, the loops around it
        for bound in program["takes"]:
            self._define(bound["value"], 0, (), "input")
        self._walk(program["order"], ())
        for value, position, loops in self._reads:
            self._extend(value, position, loops)

    @cached_property
    def tensors(self) -> list[Tensor]:
        return [
            Tensor(self._definer[value], tensor["source"], tensor["bytes"], tensor["offset"], begin, self._end[value])
            for value, tensor in enumerate(self._tensors)
            if tensor["placement"] == "arena" and (begin := self._begin.get(value)) is not None
        ]

    def alive_at(self, position: int) -> list[Tensor]:
        """The largest first; of values in one place, as where one takes over from another, the first."""
        places: dict[int, Tensor] = {}
        for tensor in self.tensors:
            if tensor.begin <= position <= tensor.end:
                places.setdefault(tensor.offset, tensor)
        return sorted(places.values(), key=lambda tensor: (-tensor.bytes, tensor.op, tensor.source))

    @cached_property
    def live_bytes(self) -> list[int]:
        """By position."""
        return [sum(tensor.bytes for tensor in self.alive_at(position)) for position in range(len(self.ops))]

    @cached_property
    def fullest(self) -> int:
        """The first position with the most live bytes."""
        return self.live_bytes.index(max(self.live_bytes))

    def _define(self, value: int, position: int, loops: tuple[int, ...], op: str) -> None:
        self._begin[value] = self._end[value] = position
        self._home[value] = loops
        self._definer[value] = op

    def _walk(self, steps: list[dict], loops: tuple[int, ...]) -> None:
        for step in steps:
            position = len(self.ops)
            self.ops.append(step["op"])
            if step["op"] == "loop":
                self._walk_loop(step, position, loops)
                continue
            self._reads += [(value, position, loops) for value in step["reads"]]
            for value in step["writes"]:
                self._define(value, position, loops, step["op"])
                if step["op"] == "slice":
                    self._viewed[value] = step["reads"][0]

    def _walk_loop(self, step: dict, begin: int, loops: tuple[int, ...]) -> None:
        inside = (*loops, begin)
        for carried in step["carried"]:
            if carried["initial"] not in self._begin:  # any content will do, so no step defines it
                self._define(carried["initial"], begin, loops, "carried")
            self._reads.append((carried["initial"], begin, loops))
            self._define(carried["argument"], begin, inside, "carried")
        self._walk(step["steps"], inside)
        end = len(self.ops)
        self.ops.append("loop")
        self._loop_ends[begin] = end
        self.loops.append(Loop(step["domain"], step["size"], begin, end))
        for carried in step["carried"]:
            self._reads.append((carried["yielded"], end, loops))
            self._define(carried["result"], end, loops, "loop")

    def _extend(self, value: int, position: int, loops: tuple[int, ...]) -> None:
        while value in self._viewed:
            value = self._viewed[value]
        if value not in self._begin:
            return
        outside = len(self._home[value])
        if len(loops) > outside:
            position = self._loop_ends[loops[outside]]
        self._end[value] = max(self._end[value], position)
