# SPDX-License-Identifier: Apache-2.0
"""bench/aarch64.py: loops from assembly, llvm-mca's answer about them, and the shares of the peak that come of both."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aarch64 import N1, V2, Assembly, Kernel, rows
from parts.assembly.loops import InnerLoop, assemble, inner_loops, multiply_adds
from parts.assembly.mca import PROGRAM, analyse, peak, read_model

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "aarch64.py"
# As g++ writes it: a loop around two others, one of which has a label that only a debugger reads.
ASSEMBLY = """
\t.type\t_Z4multl, %function
_Z4multl:
.LFB7:
\t.cfi_startproc
\tcmp\tx0, 0
\tble\t.L1
.L2:
\tmov\tx2, x0
\t.p2align 3,,7
.L3:
\tldp\tq3, q2, [x1]
#APP
// 40 "tile.h" 1
\tfmla v0.4s, v3.4s, v9.s[0]
// 0 "" 2
#NO_APP
.LVL5:
\tfmla\tv1.4s, v2.4s, v9.4s // a comment
\tsubs\tx2, x2, #1
\tbne\t.L3
.L4:
\tldr\tq4, [x3], 16
\tcbnz\tx3, .L4
\tsubs\tx0, x0, #1
\tb.ne\t.L2
.L1:
\tret
"""


def report(cycles: int, micro_ops: int, pressure: list[float]) -> str:
    """As llvm-mca would write of 100 iterations of two instructions, on a CPU that hands 4 parts a cycle to 3 pipes."""
    usage = [{"InstructionIndex": 0, "ResourceIndex": i, "ResourceUsage": busy / 2} for i, busy in enumerate(pressure)]
    usage += [{"InstructionIndex": 1, "ResourceIndex": i, "ResourceUsage": busy / 2} for i, busy in enumerate(pressure)]
    usage += [{"InstructionIndex": 2, "ResourceIndex": i, "ResourceUsage": busy} for i, busy in enumerate(pressure)]
    region = {
        "Instructions": ["ldr\tq0, [x0]", "fmla\tv1.4s, v0.4s, v0.4s"],
        "ResourcePressureView": {"ResourcePressureInfo": usage},
        "SummaryView": {"DispatchWidth": 4, "Iterations": 100, "TotalCycles": cycles, "TotaluOps": micro_ops},
    }
    resources = ["N1UnitL.\0", "N1UnitL.\1", "N1UnitV0"]
    return json.dumps({"CodeRegions": [region], "TargetInfo": {"Resources": resources}})


def test_inner_loops_are_those_without_a_label_in_them():
    first, second = inner_loops(ASSEMBLY)
    assert (first.function, first.label, second.label) == ("_Z4multl", ".L3", ".L4")
    assert [line.split()[0] for line in first.instructions] == ["ldp", "fmla", "fmla", "subs", "bne"]
    assert first.text.startswith(".L3:\n") and first.text.endswith("bne\t.L3\n") and "//" not in first.text
    assert (first.multiply_adds, second.multiply_adds, first.count("fmla")) == (8, 0, 2)


@pytest.mark.parametrize(
    ("instruction", "count"),
    [
        ("fmla\tv0.4s, v1.4s, v2.s[3]", 4),
        ("fmla v0.2s, v1.2s, v2.2s", 2),
        ("bfdot\tv0.4s, v1.8h, v2.2h[1]", 8),
        ("bfmmla v0.4s, v1.8h, v2.8h", 16),
        ("fadd\tv0.4s, v1.4s, v2.4s", 0),
        ("ldr\tq0, [x0]", 0),
    ],
)
def test_an_instruction_multiplies_and_adds(instruction, count):
    assert multiply_adds(instruction) == count


@pytest.mark.parametrize(
    ("cycles", "micro_ops", "pressure", "bound"),
    [
        (1000, 800, [1, 1, 10], "vector pipes"),
        (1000, 800, [2, 10, 4], "loads"),
        (1000, 3900, [2, 5, 4], "dispatch"),
        (1000, 800, [2, 5, 4], "waiting for results"),
    ],
)
def test_what_explains_the_cycles_bounds_a_loop(cycles, micro_ops, pressure, bound):
    model = read_model(report(cycles, micro_ops, pressure))
    assert (model.cycles, model.dispatch) == (10, micro_ops / 400)
    assert list(model.pipes.values()) == pressure
    assert model.bound == bound


def test_the_model_has_the_pipes_of_each_cpu():
    assert (peak("fmla", N1), peak("fmla", V2)) == (2, 4)
    assert (peak("bfdot", V2), peak("bfmmla", V2)) == (4, 4)


def test_a_chain_of_sums_waits_for_results():
    chain = InnerLoop("f", ".L0", ["fmla\tv0.4s, v1.4s, v2.4s"] * 8 + ["subs\tx0, x0, #1", "b.ne\t.L0"])
    apart = [f"fmla\tv{i}.4s, v30.4s, v31.4s" for i in range(16)]
    for cpu, pipes in ((N1, 2), (V2, 4)):
        waiting = analyse(chain.text, cpu)
        assert waiting.bound == "waiting for results"
        assert waiting.cycles > 8
        busy = analyse("\n".join(apart), cpu)
        assert busy.bound == "vector pipes"
        assert busy.cycles == pytest.approx(16 / pipes, rel=0.1)
    one, two = rows(Kernel("a chain", "", ""), chain)
    assert one.startswith("| a chain | N1 | 32 | ") and one.endswith("%** | waiting for results |")
    assert two.startswith("| a chain | V2 | 32 | ")


def test_a_cpu_that_llvm_mca_does_not_know_is_named():
    with pytest.raises(RuntimeError, match=r"^llvm-mca-22 does not take a loop for neoverse-n0: .*neoverse-n0"):
        analyse("ret\n", "neoverse-n0")


def test_a_kernel_is_found_by_the_name_of_its_function(tmp_path):
    source = Path(__file__).resolve().parents[2] / "runtime/backends/cpu/kernel.cpp"
    (tmp_path / "compiled.s").write_text(ASSEMBLY.replace("_Z4multl", "_ZN4mebp4multILi6EEEvl"), encoding="utf-8")
    entry = {"file": str(source), "directory": str(tmp_path), "command": "ccache sh copy.sh -o kernel.o -c"}
    (tmp_path / "copy.sh").write_text("cat compiled.s\n", encoding="utf-8")
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]), encoding="utf-8")
    assembly = Assembly(tmp_path)
    assert assembly.loop_of(Kernel("", "kernel.cpp", "mult<6>")).label == ".L3"
    with pytest.raises(ValueError, match=r"^kernel.cpp has no loop in a function mult<5>; name it as the source does$"):
        assembly.loop_of(Kernel("", "kernel.cpp", "mult<5>"))
    with pytest.raises(ValueError, match=r"other.cpp; configure it in this checkout$"):
        assembly.loop_of(Kernel("", "other.cpp", "mult<6>"))


def test_a_file_that_does_not_compile_ends_it(tmp_path):
    with pytest.raises(RuntimeError, match=f"^false fails: see its lines above, and build {tmp_path} first$"):
        assemble("ccache false -o kernel.o -c kernel.cpp", str(tmp_path))


def test_without_a_build_there_is_one_line(tmp_path):
    command = [sys.executable, str(SCRIPT), "--build", str(tmp_path / "none")]
    result = subprocess.run(command, capture_output=True, text=True)
    line = f"aarch64.py: {tmp_path / 'none'} is not a build for AArch64; run scripts/configure_aarch64.sh\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", line)


def test_without_llvm_mca_there_is_one_line(tmp_path):
    command = [sys.executable, str(SCRIPT), "--build", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path)})
    line = f"aarch64.py: {PROGRAM} is not installed; run scripts/setup.sh\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", line)
