# SPDX-License-Identifier: Apache-2.0
"""What a table of times has to say of the machine, since tables differ by machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")
# Which hold this project, and torch, to fewer instructions.
LIMITS = ("MEBP_KERNELS", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")
ONEDNN = "import torch; left = torch.ones(64, 64, dtype=torch.bfloat16); left @ left"


def parse_cpu(text: str) -> tuple[str, list[str]]:
    """The CPU's name with its family and model, and those of FLAGS that it has, from /proc/cpuinfo."""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    name = fields.get("model name", "a CPU without a name")
    # A rented machine often says the name of a whole line of CPUs.
    if "cpu family" in fields and "model" in fields:
        name += f" {fields['cpu family']}/{fields['model']}"
    return name, [flag for flag in FLAGS if flag in flags]


def read_cpu() -> tuple[str, list[str]]:
    """Of this machine."""
    return parse_cpu(Path("/proc/cpuinfo").read_text())


def available_cores() -> int:
    """That this process may run on; macOS does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_onednn(text: str) -> str:
    """The instruction set that oneDNN says it uses when ONEDNN_VERBOSE is 1: nothing where torch does without it."""
    found = re.search(r"cpu,isa:([^\n]*)", text)
    return found[1].strip() if found else "nothing for bf16"


def multiplies_bf16(machine: dict) -> bool:
    """Whether torch has instructions for it on this machine, as it is held."""
    return "bfloat16" in machine["onednn"] or "bf16" in machine["flags"]


def describe() -> dict:
    """What is known before anything is measured."""
    cpu, flags = read_cpu()
    limits = {name: os.environ[name] for name in LIMITS if name in os.environ}
    verbose = os.environ | {"ONEDNN_VERBOSE": "1"}
    ran = subprocess.run([sys.executable, "-c", ONEDNN], env=verbose, capture_output=True, text=True)
    return {
        "cpu": cpu,
        "cores": available_cores(),
        "flags": flags,
        "limits": limits,
        "onednn": parse_onednn(ran.stdout),
    }


def label(machine: dict) -> str:
    """The machine's name in tables: one CPU has different times with different kernels."""
    return f"{machine['cpu']}, {machine['kernels']}"
