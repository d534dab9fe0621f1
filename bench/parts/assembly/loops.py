# SPDX-License-Identifier: Apache-2.0
"""The inner loops of a function, from the assembly that a compiler wrote for AArch64."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

LABEL = re.compile(r"([\w.$]+):")
CONDITION = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
BRANCH = re.compile(rf"(?:b|b\.?(?:{CONDITION})|cbn?z|tbn?z)\s+(?:.*,\s*)?([\w.$]+)$")
# Labels that say where something is, and to which nothing branches.
DEBUG_LABEL = re.compile(r"\.L(?:FB|FE|VL|BB|BE|func_|tmp)\w*$")
MULTIPLY_ADDS = {"fmla": 1, "fmls": 1, "bfdot": 2, "bfmmla": 4}  # of a result's lane
LANES = {"4s": 4, "2s": 2}


@dataclass(frozen=True)
class InnerLoop:
    """A loop without another label in it: from its label to the branch back to it."""

    function: str  # as the linker knows it
    label: str
    instructions: list[str] = field(repr=False)

    @property
    def text(self) -> str:
        return "\n".join([f"{self.label}:", *self.instructions]) + "\n"

    @property
    def multiply_adds(self) -> int:
        return sum(map(multiply_adds, self.instructions))

    def count(self, instruction: str) -> int:
        return sum(line.split()[0] == instruction for line in self.instructions)


def multiply_adds(instruction: str) -> int:
    """How many numbers are multiplied and added by an instruction on vectors; 0 by others."""
    name, _, operands = instruction.replace("\t", " ").partition(" ")
    arrangement = operands.partition(",")[0].rpartition(".")[2].strip().lower()
    return MULTIPLY_ADDS.get(name, 0) * LANES.get(arrangement, 0)


def inner_loops(assembly: str) -> Iterator[InnerLoop]:
    function, label, block = "", None, []
    for line in map(str.strip, assembly.splitlines()):
        found = LABEL.match(line)
        if found:
            if DEBUG_LABEL.match(found[1]):
                continue
            if not found[1].startswith("."):
                function = found[1]
            label, block = found[1], []
        elif line and line[0] not in ".#/":
            block.append(line.partition("//")[0].strip())
            branch = BRANCH.match(block[-1])
            if branch and branch[1] == label:
                yield InnerLoop(function, label, list(block))


def assemble(command: str, folder: str) -> str:
    """The assembly that a compiler's command, of a compile_commands.json, would have made an object of."""
    arguments = shlex.split(command)
    while arguments[0].endswith("ccache"):
        del arguments[0]
    output = arguments.index("-o")
    arguments[output : output + 2] = ["-o", "-"]
    arguments[arguments.index("-c")] = "-S"
    result = subprocess.run(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        raise RuntimeError(f"{arguments[0]} fails: see its lines above, and build {folder} first")
    return result.stdout


def demangle(name: str) -> str:
    return subprocess.run(["c++filt", name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
