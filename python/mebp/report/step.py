# SPDX-License-Identifier: Apache-2.0
"""One training step in the order of runtime/train/step.cpp, and what is in use in each of its stages."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from mebp.report.lifetimes import Timeline

_ALIGNMENT = 64  # of whatever the runtime lays out
# From the bottom of the stack. What no step changes lies lowest, what every kernel call changes on top.
_ARENAS = (
    *("process", "workspace", "tokens", "trainables", "optimizer"),
    *("checkpoints", "kept", "cotangents", "gradients", "scratch"),
)
_CHANGING = ("checkpoints", "kept", "cotangents", "gradients", "scratch")


@dataclass(frozen=True)
class Stage:
    """A run of one of a block's programs."""

    kind: str  # forward, recompute, objective or backward
    block: str
    program: int
    checkpoints: int  # bytes in use, and so on
    kept: int
    cotangents: int
    gradients: int

    @property
    def title(self) -> str:
        return f"{self.kind} of {self.block}" if self.kind != "recompute" else f"forward of {self.block}, again"


class TrainingStep:
    """The stages of one step, of the largest batch and sequence, with a bundle's description (mebp.inspect).

    Of a model that is split, those that this half runs. Of MeZO, those of one of its two losses.
    """

    def __init__(self, description: dict) -> None:
        plan = description["plan"]
        self._blocks = description["blocks"]
        self._programs = description["programs"]
        # As runtime/train/checkpoints.h: segments are counted from the last checkpoint back.
        # Spilled ones are not in memory.
        checkpoints = len(self._blocks) - 2
        self._spilled = plan["spill_checkpoints"]
        self._spacing = 1 if self._spilled else min(max(1, plan["spacing"]), max(1, checkpoints))
        self._missing = -checkpoints % self._spacing
        planned = {"process": plan["process_bytes"], **{each["name"]: each["bytes"] for each in plan["buffers"]}}
        self.planned = {name: planned[name] for name in sorted(planned, key=_height)}  # bytes by arena, from the bottom
        self._has_gradients = "gradients" in planned
        self.timelines = {number: Timeline(self._programs[number]) for _, _, number in self._runs()}
        self.stages = self._make_stages()

    def in_use(self, stage: Stage, position: int) -> dict[str, int]:
        """Bytes by arena while `stage` is at `position` of its program."""
        changing = {name: getattr(stage, name) for name in _CHANGING[:-1]}
        changing["scratch"] = self.timelines[stage.program].live_bytes[position]
        return {name: changing.get(name, planned) for name, planned in self.planned.items()}

    @cached_property
    def fullest(self) -> Stage:
        """Where the most is in use; within it, at the fullest position of its program."""
        return max(self.stages, key=lambda stage: sum(self.in_use(stage, self._top(stage)).values()))

    @cached_property
    def most_in_use(self) -> int:
        return sum(self.in_use(self.fullest, self._top(self.fullest)).values())

    def _top(self, stage: Stage) -> int:
        return self.timelines[stage.program].fullest

    def _runs(self) -> Iterator[tuple[str, int, int]]:
        """Kind, block and program, in the order in which they run."""
        head = len(self._blocks) - 1
        uses = [block["programs"] for block in self._blocks]
        for block in range(head):
            if "forward" in uses[block]:
                yield "forward", block, uses[block]["forward"]
        objective = "objective" if self._has_gradients else "log_probabilities"
        if objective in uses[head]:
            yield "objective", head, uses[head][objective]
        if not self._has_gradients:
            return
        segment = (head - 2 + self._missing) // self._spacing
        for block in reversed(range(head)):
            if "backward" not in uses[block]:
                return
            if block > 0 and (block - 1 + self._missing) // self._spacing != segment:
                segment -= 1
                end = (segment + 1) * self._spacing - self._missing
                for again in range(max(0, end - self._spacing), end):
                    if (again + self._missing) % self._spacing:
                        yield "recompute", again, uses[again]["forward"]
            yield "backward", block, uses[block]["backward"]

    def _make_stages(self) -> list[Stage]:
        # From the last to the first: what a stage reads was needed by it, what it writes is needed from it on.
        stages: list[Stage] = []
        needed: set[tuple[str, int]] = set()
        kept: set[int] = set()  # blocks whose backward takes values of their forward
        for kind, block, number in reversed(list(self._runs())):
            program = self._programs[number]
            reads, writes = self._traffic(kind, block, program)
            if kind == "forward":  # what a backward begins with may come from the other half, after all forwards
                needed.discard(("cotangent", len(self._blocks) - 1))
            # What a program in place gives lies where it took what it flows from.
            replaces = program["in_place"] and _flow(reads) and writes == _flow(writes)
            in_use = (needed - writes) | reads if replaces else needed | reads | writes
            needed = (needed - writes) | reads
            kept |= {block} if kind == "backward" else set()
            kept_bytes = sum(self._kept_bytes(block) for block in kept)
            kept -= {block} if kind == "forward" else set()
            stages.append(
                Stage(
                    kind,
                    self._blocks[block]["name"],
                    number,
                    self._count(in_use, "checkpoint"),
                    kept_bytes,
                    self._count(in_use, "cotangent"),
                    self._bytes(number, "gives", "gradient") + (self._head_bytes if kind == "objective" else 0),
                )
            )
        return stages[::-1]

    def _traffic(self, kind: str, block: int, program: dict) -> tuple[set, set]:
        """What a run reads and writes in memory. Each has the number of the block whose input it is, or is of."""
        takes, gives = _flows(program["takes"]), _flows(program["gives"])
        from_file = self._spilled and kind == "backward"
        reads = {self._activation(block)} if "activation" in takes and not from_file else set()
        reads |= {("cotangent", block + 1)} if "cotangent" in takes else set()
        writes = {self._activation(block + 1)} if "activation" in gives else set()
        writes |= {("cotangent", block)} if "cotangent" in gives else set()
        return reads, writes

    def _activation(self, block: int) -> tuple[str, int]:
        """The input of a block: a checkpoint, or what flows through the memory of cotangents."""
        flows = self._spilled or not self._has_gradients or block == len(self._blocks) - 1
        return ("cotangent" if flows else "checkpoint", -block if flows else block)

    def _count(self, in_use: set[tuple[str, int]], what: str) -> int:
        return self._checkpoint_bytes * sum(kind == what for kind, _ in in_use)

    def _kept_bytes(self, block: int) -> int:
        return self._bytes(self._blocks[block]["programs"]["forward"], "gives", "kept")

    @cached_property
    def _head_bytes(self) -> int:
        """What the head takes and gives lies where gradients come: four numbers a token, beside its id and label."""
        return 2 * self.planned["tokens"] if self._has_gradients else 0

    @cached_property
    def _checkpoint_bytes(self) -> int:
        # A cotangent has as much room.
        uses = [block["programs"] for block in self._blocks[:-1]]
        return max(self._bytes(each["forward"], "gives", "flow") for each in uses if "forward" in each)

    def _bytes(self, number: int, direction: str, kind: str) -> int:
        program = self._programs[number]
        ports = [port for port in program[direction] if port["kind"] == kind]
        return sum(_aligned(program["tensors"][port["value"]]["bytes"]) for port in ports)


def _flows(ports: list[dict]) -> set[str]:
    """Which ways something passes: "activation" to the next block, "cotangent" to the one before."""
    names = [port["name"] for port in ports if port["kind"] == "flow"]
    return {"cotangent" if name.endswith(".cotangent") else "activation" for name in names}


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _height(arena: str) -> int:
    # What a later compiler adds stands among what does not change.
    return _ARENAS.index(arena) if arena in _ARENAS else _ARENAS.index("checkpoints")


def _flow(traffic: set[tuple[str, int]]) -> set[tuple[str, int]]:
    return {each for each in traffic if each[0] == "cotangent"}
