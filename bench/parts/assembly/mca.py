# SPDX-License-Identifier: Apache-2.0
"""What llvm-mca says of a loop on a CPU: a model of the CPU's pipes, in which all data are in the first cache."""

import json
import subprocess
from dataclasses import dataclass

PROGRAM = "llvm-mca-22"  # older ones have no model of Neoverse V2
ITERATIONS = 200
# One of many instructions whose results nobody waits for; the names of registers are those of vectors.
INDEPENDENT = 24
OPERANDS = {"fmla": "{}.4s, v30.4s, v31.s[0]", "bfdot": "{}.4s, v30.8h, v31.2h[0]", "bfmmla": "{}.4s, v30.8h, v31.8h"}
# A limit explains a loop's cycles if it is this much of them; what no limit explains waits for results.
EXPLAINS = 0.9


@dataclass(frozen=True)
class Model:
    """Of one iteration."""

    cycles: float
    dispatch: float  # cycles in which all its parts are handed to pipes
    pipes: dict[str, float]  # the cycles that each pipe is busy

    @property
    def bound(self) -> str:
        limits = {"dispatch": self.dispatch}
        for name, busy in self.pipes.items():
            limits[kind_of(name)] = max(limits.get(kind_of(name), 0), busy)
        name, most = max(limits.items(), key=lambda limit: limit[1])
        return name if most >= EXPLAINS * self.cycles else "waiting for results"


def kind_of(pipe: str) -> str:
    """What goes through a pipe, by its name in LLVM's models of Neoverse CPUs: N1UnitV0, V2UnitL01."""
    unit = pipe.partition("Unit")[2]
    return {"V": "vector pipes", "L": "loads"}.get(unit[:1], "integer pipes")


def read_model(text: str) -> Model:
    """Of the JSON that llvm-mca writes for one region."""
    report = json.loads(text)
    (region,) = report["CodeRegions"]
    summary = region["SummaryView"]
    names = [name.partition("\0")[0] for name in report["TargetInfo"]["Resources"]]
    pipes = {f"{name}#{index}": 0.0 for index, name in enumerate(names)}
    instructions = len(region["Instructions"])
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] < instructions:  # the last one is the sum
            index = use["ResourceIndex"]
            pipes[f"{names[index]}#{index}"] += use["ResourceUsage"]
    iterations = summary["Iterations"]
    return Model(
        cycles=summary["TotalCycles"] / iterations,
        dispatch=summary["TotaluOps"] / iterations / summary["DispatchWidth"],
        pipes=pipes,
    )


def analyse(assembly: str, cpu: str) -> Model:
    command = [PROGRAM, "-mtriple=aarch64", f"-mcpu={cpu}", f"-iterations={ITERATIONS}", "-json", "-"]
    result = subprocess.run(command, input=assembly, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{PROGRAM} does not take a loop for {cpu}: {result.stderr.strip().splitlines()[0]}")
    return read_model(result.stdout)


def peak(instruction: str, cpu: str) -> float:
    """How many of such instructions end in a cycle where none waits for another."""
    lines = (f"{instruction} {OPERANDS[instruction].format(f'v{i}')}\n" for i in range(INDEPENDENT))
    return round(INDEPENDENT / analyse("".join(lines), cpu).cycles, 1)
