# SPDX-License-Identifier: Apache-2.0
"""The inner loops of the AArch64 kernels on Neoverse N1 and V2, by llvm-mca's model of these CPUs: nothing is measured.

    scripts/configure_aarch64.sh
    .venv/bin/python bench/aarch64.py [--build build/aarch64] [--markdown docs/speed-tables.md]

Compiles the kernels as the build folder does, takes of each function its inner loop with the most multiply-adds, and
asks llvm-mca how many cycles an iteration takes. The peak is that of independent instructions in the same model. With
--markdown the table replaces the one between the marks in that page.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parts.assembly.loops import InnerLoop, assemble, demangle, inner_loops, multiply_adds
from parts.assembly.mca import OPERANDS, PROGRAM, analyse, peak
from parts.pages import write_between_marks

ROOT = Path(__file__).resolve().parents[1]
MARK = "bench/aarch64.py"
HEADER = [
    "| loop | CPU, by model | multiply-adds an iteration | cycles | of the peak | what bounds it |",
    "| --- | --- | ---: | ---: | ---: | --- |",
]
AIM = 0.7  # of the peak; what misses it is bold
N1, V2 = "neoverse-n1", "neoverse-v2"  # without and with products of bf16


@dataclass(frozen=True)
class Kernel:
    name: str
    source: str  # of a folder of runtime/backends/cpu
    function: str  # begins so, without namespaces
    cpus: tuple[str, ...] = (N1, V2)


LINEAR, BF16 = "vector/linear.cpp", "products/neon_bf16.cpp"
# Attention and its gradient call the same functions. A tile has 6 rows, or what is left.
KERNELS = (
    *(Kernel(f"f32 products, {n} rows", LINEAR, f"multiplyLanes<false, {n}, 4,") for n in (6, 5, 4)),
    *(Kernel(f"f32 products, {n} rows, transposed", LINEAR, f"multiplyLanes<true, {n}, 4,") for n in (6, 5, 4)),
    *(Kernel(f"f32 products of rank 8, {n} rows", LINEAR, f"multiplyLanes<false, {n}, 2,") for n in (6, 5, 4)),
    *(Kernel(f"bf16 products, {n} rows", BF16, f"multiplyRows<{n}>", (V2,)) for n in (6, 4)),
    Kernel("int4 decoding, 1 token", LINEAR, "multiplyCodes<1, 4, true>"),
    Kernel("int4 decoding, 2 tokens", LINEAR, "multiplyCodes<2, 2, true>"),
    Kernel("int4 decoding, 4 tokens", LINEAR, "multiplyCodes<4, 1, true>"),
    Kernel("int8 decoding, 1 token", LINEAR, "multiplyCodes<1, 4, false>"),
)


class Assembly:
    """Inner loops by function, of files that are compiled once."""

    def __init__(self, build: Path) -> None:
        commands = build / "compile_commands.json"
        if not commands.is_file():
            raise ValueError(f"{build} is not a build for AArch64; run scripts/configure_aarch64.sh")
        self.commands = {entry["file"]: entry for entry in json.loads(commands.read_text(encoding="utf-8"))}
        self.loops: dict[str, dict[str, list[InnerLoop]]] = {}

    def of_file(self, source: str) -> dict[str, list[InnerLoop]]:
        if source not in self.loops:
            file = str(ROOT / "runtime/backends/cpu" / source)
            if file not in self.commands:
                raise ValueError(f"the build does not compile {file}; configure it in this checkout")
            entry, functions = self.commands[file], {}
            for loop in inner_loops(assemble(entry["command"], entry["directory"])):
                functions.setdefault(loop.function, []).append(loop)
            self.loops[source] = {demangle(name): loops for name, loops in functions.items()}
        return self.loops[source]

    def loop_of(self, kernel: Kernel) -> InnerLoop:
        found = [
            loop
            for name, loops in self.of_file(kernel.source).items()
            if f"::{kernel.function}" in name.partition("(long")[0].replace("(anonymous namespace)", "")
            for loop in loops
        ]
        if not found:
            raise ValueError(f"{kernel.source} has no loop in a function {kernel.function}; name it as the source does")
        return max(found, key=lambda loop: loop.multiply_adds)


def rows(kernel: Kernel, loop: InnerLoop) -> Iterator[str]:
    instruction = max(OPERANDS, key=loop.count)
    for cpu in kernel.cpus:
        model = analyse(loop.text, cpu)
        fastest = peak(instruction, cpu)
        share = loop.multiply_adds / model.cycles / (fastest * multiply_adds(f"{instruction} v0.4s"))
        reached = f"{share:.0%}" if round(share, 2) >= AIM else f"**{share:.0%}**"
        name = cpu.removeprefix("neoverse-").upper()
        yield f"| {kernel.name} | {name} | {loop.multiply_adds} | {model.cycles:.1f} | {reached} | {model.bound} |"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/aarch64", help="a build for AArch64")
    parser.add_argument("--markdown", type=Path, help="the page that has the table")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    try:
        if not shutil.which(PROGRAM):
            raise ValueError(f"{PROGRAM} is not installed; run scripts/setup.sh")
        assembly = Assembly(arguments.build)
        table = [*HEADER, *(row for kernel in KERNELS for row in rows(kernel, assembly.loop_of(kernel)))]
        if arguments.markdown:
            write_between_marks(arguments.markdown, MARK, table)
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"aarch64.py: {error}\n")
        sys.exit(2)
    print(*table, sep="\n")


if __name__ == "__main__":
    main()
