# SPDX-License-Identifier: Apache-2.0
"""Random exec programs: whether they give the same once they are copied and placed.

Independent of the compiler's lifetimes and of its verifier: a program is run as it is written, where a value is what
its op made of others, and run again as it was placed, where a value is what lies at its place when it is read.
"""

import random
import re
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise

TRIPS = 3  # of every loop: what must outlive a trip is then read in the next one
ROWS, CHUNK = 4, 1


def type_of(kind: str, columns: int) -> str:
    """Of all tokens, of a chunk of them, or of a sum over them."""
    return {
        "tokens": f"tensor<{ROWS}x{columns}xf32, #exec.extent<tokens, whole>>",
        "chunk": f"tensor<{CHUNK}x{columns}xf32, #exec.extent<chunk, whole>>",
        "sum": f"tensor<16x{columns}xf32>",
    }[kind]


@dataclass(frozen=True)
class Value:
    name: str
    type: str


@dataclass
class Generator:
    """Text of a random program. Nothing keeps it from adding to what is read later, or from yielding what it likes."""

    random: random.Random
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, type_: str) -> Value:
        self.count += 1
        return Value(f"%v{self.count}", type_)

    def kernel(self, name: str, operands: dict[str, Value], result: str, attributes: str = "") -> Value:
        value = self.fresh(result)
        given = ", ".join(f"{slot} = {operand.name}" for slot, operand in operands.items())
        types = ", ".join(operand.type for operand in operands.values())
        self.lines.append(f'{value.name} = exec.kernel "{name}"({given}) {{{attributes}}} : ({types}) -> {result}')
        return value

    def step(self, scope: list[Value], trip: str | None) -> Value:
        source = self.random.choice(scope)
        alike = [value for value in scope if value.type == source.type]
        rows = [value for value in scope if "x16x" in value.type]
        tokens = [value for value in scope if value.type == type_of("tokens", 16)]
        chunks = [value for value in scope if value.type == type_of("chunk", 16)]
        sums = [value for value in scope if value.type == type_of("sum", 16)]
        choices = ["silu", "add", "sum", "fill", "empty"] + (["slice"] if trip and tokens else [])
        kind = self.random.choice(choices + (["update"] * 2 if trip and chunks and tokens else []))
        if kind == "silu":
            return self.kernel("silu", {"x": source}, source.type)
        if kind == "add":
            return self.kernel("add", {"a": source, "b": self.random.choice(alike)}, source.type)
        if kind == "sum" and rows:
            operands = dict.fromkeys(("dy", "x"), self.random.choice(rows))
            if sums and self.random.random() < 0.8:
                operands["accumulator"] = self.random.choice(sums)
            return self.kernel("linear_weight_gradient", operands, type_of("sum", 16))
        if kind == "slice":
            value, whole = self.fresh(type_of("chunk", 16)), self.random.choice(tokens)
            self.lines.append(f"{value.name} = train.slice {whole.name}[{trip}] : {whole.type} -> {value.type}")
            return value
        if kind == "update":
            value, part = self.fresh(type_of("tokens", 16)), self.random.choice(chunks)
            whole = self.random.choice(tokens)
            self.lines.append(
                f"{value.name} = train.update {part.name} into {whole.name}[{trip}] : {part.type} into {whole.type}"
            )
            return value
        if kind == "empty":
            value = self.fresh(source.type)
            self.lines.append(f"{value.name} = exec.empty : {value.type}")
            return value
        return self.kernel("fill", {}, source.type, f"value = {self.random.randint(0, 1)}.0 : f32")

    def loop(self, scope: list[Value], trip: str | None, over_tokens: bool, inner: bool) -> list[Value]:
        carried = [value for value in scope if "chunk" not in value.type]
        inits = [self.random.choice(carried) for _ in range(self.random.randint(0, 3))]
        arguments, results = ([self.fresh(value.type) for value in inits] for _ in range(2))
        weight = next(value for value in scope if value.name == "%w")
        own = self.fresh("index").name
        domain = f"sequence {CHUNK}" if over_tokens else f"weight_rows 8 over %w : {weight.type}"
        pairs = ", ".join(f"{argument.name} = {init.name}" for argument, init in zip(arguments, inits, strict=True))
        types = ", ".join(value.type for value in inits)
        given = ", ".join(value.name for value in results)
        self.lines.append(
            f"{given}{' = ' if inits else ''}train.loop {domain} trip {own} ({pairs}){' : ' if inits else ''}{types} {{"
        )
        inside = self.steps(scope + arguments, own if over_tokens else trip, None if inner else not over_tokens)
        yielded = [
            self.random.choice([value for value in inside if value.type == argument.type]) for argument in arguments
        ]
        names = ", ".join(value.name for value in yielded)
        self.lines += [f"train.yield {names} : {types}" if inits else "train.yield", "}"]
        return results

    def steps(self, scope: list[Value], trip: str | None, loops: bool | None) -> list[Value]:
        """`loops`: whether those that may be in here run over tokens; None: none may be."""
        scope = list(scope)
        for _ in range(self.random.randint(2, 7)):
            if loops is not None and self.random.random() < 0.4:
                scope += self.loop(scope, trip, loops, inner=trip is not None or not loops)
            else:
                scope.append(self.step(scope, trip))
        return scope

    def program(self, name: str) -> list[str]:
        inputs = [
            Value("%x", type_of("tokens", 16)),
            Value("%s", type_of("sum", 16)),
            Value("%w", type_of("sum", 16)),
        ]
        scope = self.steps(inputs, None, self.random.random() < 0.7)
        returned = [self.random.choice(scope) for _ in range(self.random.randint(1, 3))]
        ports = ", ".join(f'#train.port<flow, "x{i}">' for i in range(len(inputs)))
        outputs = ", ".join(f'#train.port<flow, "y{i}">' for i in range(len(returned)))
        names, types = (", ".join(getattr(value, part) for value in returned) for part in ("name", "type"))
        return [
            f"exec.program @{name} inputs [{ports}] outputs [{outputs}] {{",
            f"^bb0({', '.join(f'{value.name}: {value.type}' for value in inputs)}):",
            *self.lines,
            f"exec.return {names} : {types}",
            "}",
        ]


NAMES = re.compile(r"%[\w#]+")


class Run:
    """Runs the text of a program. What a value is: its history, as nested tuples."""

    def __init__(self, lines: list[str]):
        self.lines, self.next = lines, 0
        self.values: dict[str, object] = {}

    def read(self, name: str) -> object:
        return self.values[name]

    def define(self, name: str, content: object, place: str | None, type_: str) -> None:
        self.values[name] = content

    def carry(self, source: str, target: str) -> None:
        self.values[target] = self.values[source]

    def slice(self, name: str, source: str, trip: int) -> None:
        self.values[name] = ("slice", self.read(source), trip)

    def update(self, name: str, whole: str, part: str, trip: int) -> None:
        self.values[name] = ("update", self.read(whole), self.read(part), trip)

    def results(self, line: str) -> list[str]:
        """`%3:2 = ` names %3#0 and %3#1."""
        left = line.split(" = ", 1)[0] if " = " in line.split("(", 1)[0] else ""
        found = []
        for name, count in re.findall(r"(%\w+)(?::(\d+))?", left):
            found += [f"{name}#{i}" for i in range(int(count))] if count else [name]
        return found

    def run(self) -> list[object]:
        for name in NAMES.findall(self.lines[0]):
            self.define(name, ("input", name), None, "")
        self.next = 1
        return self.block({})

    def block(self, trips: dict[str, int]) -> list[object]:
        """Up to the block's end. Gives the contents that are returned, or the names that are yielded."""
        while True:
            line = self.lines[self.next]
            self.next += 1
            operands = NAMES.findall(line.split(" = ", 1)[-1] if self.results(line) else line)
            if line.startswith("exec.return"):
                return [self.read(name) for name in operands]
            if line.startswith("train.yield"):
                self.next += 1
                return operands
            if line == "}":  # a loop that carries nothing
                return []
            if "train.loop" in line:
                self.loop(line, trips)
            elif "train.slice" in line:
                self.slice(self.results(line)[0], operands[0], trips[operands[1]])
            elif "train.update" in line:
                self.update(self.results(line)[0], operands[1], operands[0], trips[operands[2]])
            else:
                self.op(line, operands)

    def op(self, line: str, operands: list[str]) -> None:
        place = re.search(r"<((?:arena|output) \d+)>", line)
        name = re.search(r'exec\.(?:kernel "(\w+)"|(empty))', line)
        value = re.search(r"value = (\S+)", line)
        history = (name[1] or name[2], value and float(value[1]), *(self.read(operand) for operand in operands))
        # Joined columns of one part are a copy.
        content = history[2] if history[0] == "concat" else history
        self.define(self.results(line)[0], content, place and place[1], line.rsplit("-> ", 1)[-1].rsplit(" : ", 1)[-1])

    def loop(self, line: str, trips: dict[str, int]) -> None:
        trip = re.search(r"trip (%\w+) \((.*?)\)", line)
        pairs = [pair.split(" = ") for pair in trip[2].split(", ")] if trip[2] else []
        begin = self.next
        for argument, init in pairs:
            self.carry(init, argument)
        for number in range(TRIPS):
            self.next = begin
            yielded = self.block({**trips, trip[1]: number})
            # All at once: what is yielded may be an argument.
            self.carry_all(yielded, [argument for argument, _ in pairs])
        for (argument, _), result in zip(pairs, self.results(line), strict=True):
            self.carry(argument, result)

    def carry_all(self, sources: list[str], targets: list[str]) -> None:
        self.values.update(dict(zip(targets, [self.read(source) for source in sources], strict=True)))


class PlacedRun(Run):
    """A value is what lies at its place when it is read; a slice, what its source is then."""

    def __init__(self, lines: list[str]):
        super().__init__(lines)
        self.places: dict[str, list[tuple[str, int]]] = {}
        self.memory: dict[tuple[str, int], object] = {}
        self.views: dict[str, tuple[str, int]] = {}

    def read(self, name: str) -> object:
        if name in self.views:
            source, trip = self.views[name]
            return ("slice", self.read(source), trip)
        found = {id(self.memory[granule]): self.memory[granule] for granule in self.places[name]}
        return next(iter(found.values())) if len(found) == 1 else object()

    def define(self, name: str, content: object, place: str | None, type_: str) -> None:
        if place is None:
            granules = [(name, 0)]
        else:
            rows, columns = map(int, re.match(r"tensor<(\d+)x(\d+)x", type_).groups())
            memory, number = place.split()
            owner, first = (memory, int(number)) if memory == "arena" else (place, 0)
            granules = [(owner, first + i) for i in range(0, 4 * rows * columns, 64)]
        self.views.pop(name, None)  # of another block, where the name was a slice's
        self.places[name] = granules
        self.memory.update(dict.fromkeys(granules, content))

    def carry(self, source: str, target: str) -> None:
        self.views.pop(target, None)
        self.places[target] = self.places[source]

    def slice(self, name: str, source: str, trip: int) -> None:
        self.views[name] = (source, trip)

    def update(self, name: str, whole: str, part: str, trip: int) -> None:
        content = ("update", self.read(whole), self.read(part), trip)
        self.carry(whole, name)
        self.memory.update(dict.fromkeys(self.places[name], content))

    def carry_all(self, sources: list[str], targets: list[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            if self.places[source] != self.places[target]:
                raise AssertionError(f"{source} does not lie where the next trip finds {target}")


def programs(text: str) -> list[list[str]]:
    """The lines of each program, from its block's arguments on."""
    lines = [line.strip() for line in text.splitlines()]
    begins = [i for i, line in enumerate(lines) if line.startswith("exec.program")] + [len(lines)]
    return [lines[begin + 1 : end] for begin, end in pairwise(begins)]


def opt(text: str, *passes: str) -> str:
    ran = subprocess.run(["mebp-opt", *passes], input=text, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr[:2000])
    return ran.stdout


def main(count: int) -> None:
    text = "\n".join("\n".join(Generator(random.Random(seed)).program(f"p{seed}")) for seed in range(count))
    # Inputs then have the same names in both.
    written, placed = opt(text), opt(text, "--mebp-place-values")
    for seed, (before, after) in enumerate(zip(programs(written), programs(placed), strict=True)):
        if Run(before).run() != PlacedRun(after).run():
            sys.exit(f"seed {seed} gives something else:\n" + "\n".join(before) + "\n" + "\n".join(after))
    copies = placed.count("exec.kernel") - written.count("exec.kernel")
    print(f"{count} programs give the same with {copies} copies")


if __name__ == "__main__":
    main(int(sys.argv[1]))
