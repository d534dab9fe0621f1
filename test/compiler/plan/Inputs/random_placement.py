# SPDX-License-Identifier: Apache-2.0
"""Random exec programs, and whether the memory that mebp-place-values gives them keeps every value until it is read.

Independent of the compiler's lifetimes: the program is run, with the bytes of a value filled with a tag of their own
and checked whenever it is read.
"""

import random
import re
import subprocess
import sys
from dataclasses import dataclass, field

TRIPS = 3  # of every loop: a value that must outlive a trip is then read in the next one


@dataclass
class Value:
    number: int
    columns: int
    name: str
    root: int = -1  # of a slice: what it looks into
    tag: object = None

    @property
    def bytes(self) -> int:
        return 4 * self.columns

    @property
    def type(self) -> str:
        return f"tensor<1x{self.columns}xf32>"


@dataclass
class Program:
    """Text and values of a program; `steps` mirrors it as (kind, operands, results, body)."""

    random: random.Random
    values: list[Value] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def define(self, columns: int, root: int = -1) -> Value:
        value = Value(len(self.values), columns, f"%v{len(self.values)}", root)
        self.values.append(value)
        return value

    def root(self, value: Value) -> Value:
        while value.root >= 0:
            value = self.values[value.root]
        return value

    def kernel(self, visible: list[Value], fresh: list[Value]) -> tuple:
        """A kernel that may take over the memory of its first operand, or must, where nothing else needs that."""
        inputs = [self.random.choice(visible) for _ in range(self.random.randint(1, 3))]
        reuse = 0 if self.random.random() < 0.6 else -1
        columns = inputs[0].columns if reuse == 0 or self.random.random() < 0.5 else self.random.choice((16, 32, 64))
        result = self.define(columns)
        slots = ", ".join(str(i) for i in range(len(inputs)))
        names, types = ", ".join(v.name for v in inputs), ", ".join(v.type for v in inputs)
        self.text.append(
            f'{result.name} = exec.kernel "any"({names}) slots [{slots}] ties [-1] reuses [{reuse}] {{}} '
            f": ({types}) -> {result.type}"
        )
        fresh.append(result)
        return ("kernel", inputs, [result], reuse)

    def loop(self, outer: list[Value], depth: int) -> tuple:
        """A loop whose carried values begin empty, are read, and are updated at the end of each trip."""
        count = self.random.randint(0, 2)
        inits = [self.define(self.random.choice((16, 32))) for _ in range(count)]
        self.text += [f"{v.name} = train.empty : {v.type}" for v in inits]
        arguments = [self.define(v.columns) for v in inits]
        header = len(self.text)
        self.text.append("")
        inside = outer + arguments
        body = []
        for source in self.random.sample(inside, min(2, len(inside))):
            view = self.define(source.columns, source.number)
            self.text.append(f"{view.name} = train.slice {source.name}[%t{header}] : {source.type} -> {view.type}")
            body.append(("slice", [source], [view], -1))
            inside.append(view)
        body += self.steps(inside, depth + 1)
        yielded = []
        for argument in arguments:
            # A carried value that is read after its update has no memory of its own any more: that is refused.
            sources = [v for v in inside if v.columns == argument.columns and self.root(v) not in arguments]
            source = self.random.choice(sources)
            value = self.define(argument.columns)
            self.text.append(
                f"{value.name} = train.update {source.name} into {argument.name}[%t{header}] "
                f": {source.type} into {argument.type}"
            )
            body.append(("update", [argument, source], [value], 0))
            yielded.append(value)
        results = [self.define(v.columns) for v in inits]
        types = ", ".join(v.type for v in inits)
        carried = ", ".join(f"{a.name} = {i.name}" for a, i in zip(arguments, inits, strict=True))
        names = ", ".join(v.name for v in results)
        self.text[header] = (
            f"{names}{' = ' if count else ''}train.loop sequence 1 trip %t{header} ({carried})"
            f"{' : ' + types if count else ''} {{"
        )
        self.text.append(f"train.yield {', '.join(v.name for v in yielded)} : {types}" if count else "train.yield")
        self.text.append("}")
        return ("loop", (inits, arguments, yielded), results, body)

    def steps(self, visible: list[Value], depth: int) -> list[tuple]:
        """Appends what is defined to `visible`, which later steps choose from."""
        steps = []
        for _ in range(self.random.randint(2, 7)):
            if depth < 2 and self.random.random() < 0.3:
                step = self.loop(list(visible), depth)
                visible += step[2]
            else:
                step = self.kernel(visible, visible)
            steps.append(step)
        return steps


class Memory:
    """Byte ranges with the tag that was written last."""

    def __init__(self, placement: list[int]):
        self.placement = placement
        self.bytes: dict[tuple[str, int], object] = {}

    def places(self, value: Value) -> list[tuple[str, int]]:
        offset = self.placement[value.number]
        if offset >= 0:
            owner, begin = "arena", offset
        else:
            owner, begin = f"bound {value.number if offset == -1 else -3 - offset}", 0
        return [(owner, begin + i) for i in range(0, value.bytes, 16)]


def run(steps: list[tuple], memory: Memory, program: Program) -> None:
    """Executes; raises where a value is no longer there when it is read."""

    def places(value: Value) -> list[tuple[str, int]]:
        return memory.places(program.root(value))

    def read(value: Value) -> None:
        root = program.root(value)
        if any(memory.bytes.get(place) != root.tag for place in places(root)):
            raise AssertionError(f"value {root.number} is gone when it is read")

    def write(value: Value) -> None:
        value.tag = object()
        memory.bytes.update(dict.fromkeys(places(value), value.tag))

    def move(source: Value, target: Value) -> None:
        if places(source) != places(target):
            raise AssertionError(f"values {source.number} and {target.number} should share their memory")
        target.tag = source.tag

    for kind, inputs, results, extra in steps:
        if kind == "kernel":
            for value in inputs:
                read(value)
            allowed = set(places(inputs[extra])) if extra >= 0 else set()
            if any((set(places(value)) & set(places(results[0]))) - allowed for value in inputs):
                raise AssertionError(f"value {results[0].number} is written over an operand that is needed whole")
            write(results[0])
        elif kind == "update":
            for value in inputs:
                read(value)
            move(inputs[0], results[0])
            write(results[0])
        elif kind == "loop":
            inits, arguments, yielded = inputs
            for init, argument in zip(inits, arguments, strict=True):
                write(init)
                move(init, argument)
            for _ in range(TRIPS):
                run(extra, memory, program)
                for argument, value in zip(arguments, yielded, strict=True):
                    move(value, argument)
            for value, result in zip(yielded, results, strict=True):
                read(value)
                move(value, result)


def generate(seed: int) -> tuple[Program, list[tuple], list[Value]]:
    program = Program(random.Random(seed))
    inputs = [program.define(columns) for columns in (16, 32, 64)]
    steps = program.steps(list(inputs), 0)
    returned = [steps[-1][2][-1]] if steps[-1][2] else []
    ports = ", ".join(f'#train.port<flow, "x{i}">' for i in range(len(inputs)))
    arguments = ", ".join(f"{v.name}: {v.type}" for v in inputs)
    outputs = ", ".join(f'#train.port<flow, "y{i}">' for i in range(len(returned)))
    names = f" {returned[0].name} : {returned[0].type}" if returned else ""
    program.text = [
        f"exec.program @p{seed} inputs [{ports}] outputs [{outputs}] {{",
        f"^bb0({arguments}):",
        *program.text,
        f"exec.return{names}",
        "}",
    ]
    return program, steps, inputs


def main(count: int) -> None:
    cases = [generate(seed) for seed in range(count)]
    text = "\n".join(line for program, _, _ in cases for line in program.text)
    placed = subprocess.run(["mebp-opt", "--mebp-place-values"], input=text, capture_output=True, text=True)
    if placed.returncode:
        sys.exit(placed.stderr)
    headers = re.findall(r"exec\.program @p(\d+) .* arena (\d+) placement \[(.*)\]", placed.stdout)
    if len(headers) != count:
        sys.exit(f"{len(headers)} placements for {count} programs")
    shared = 0
    for seed, arena, table in headers:
        program, steps, inputs = cases[int(seed)]
        placement = [int(offset) for offset in table.split(", ")]
        memory = Memory(placement)
        for value in inputs:
            value.tag = ("input", value.number)
            memory.bytes.update(dict.fromkeys(memory.places(value), value.tag))
        try:
            run(steps, memory, program)
        except AssertionError as error:
            sys.exit(f"seed {seed}: {error}\n" + "\n".join(program.text))
        if any(
            offset >= 0 and offset + value.bytes > int(arena)
            for value, offset in zip(program.values, placement, strict=True)
        ):
            sys.exit(f"seed {seed}: a value reaches beyond the arena")
        shared += sum(v.bytes for v, offset in zip(program.values, placement, strict=True) if offset >= 0) > int(arena)
    print(f"{count} programs keep what they read; {shared} of them share memory")


if __name__ == "__main__":
    main(int(sys.argv[1]))
