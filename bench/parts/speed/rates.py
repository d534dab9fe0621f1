# SPDX-License-Identifier: Apache-2.0
"""How fast this machine can compute: register-only loops and this project's linear kernels, each in its own process.

FLOP/s throughout. Both programs are built with -DMEBP_BUILD_BENCH=ON.
"""

import json
import os
import subprocess

import mebp
from mebp.tools import find_tool, last_line

KINDS = ("linear", "linear_input_gradient")
Peaks = dict[str, dict[str, float]]  # by kind of instruction and number of threads, which JSON has as text


def find_bench(name: str) -> str:
    """Raises mebp.Error where it is not built."""
    try:
        return find_tool(name)
    except mebp.Error as error:
        build = "cmake -B build -DMEBP_BUILD_BENCH=ON && cmake --build build"
        google = "install Google benchmark (libbenchmark-dev), then build it" if name == "kernel_bench" else "build it"
        raise mebp.Error(f"{name} is not built; {google} with: {build}") from error


def parse_peaks(text: str) -> Peaks:
    peaks: Peaks = {}
    for line in text.splitlines():
        kind, threads, rate = line.split("|")
        peaks.setdefault(kind, {})[threads] = float(rate) * 1e9
    return peaks


def parse_kernel_bench(text: str) -> dict[str, float]:
    """By KIND/INPUTSxOUTPUTS, of several runs the fastest, as torch's products are taken."""
    rates: dict[str, float] = {}
    for measured in json.loads(text)["benchmarks"]:
        if measured["run_type"] == "iteration":
            kind, _, _, inputs, outputs, *_ = measured["name"].split("/")
            name = f"{kind}/{inputs}x{outputs}"
            rates[name] = max(rates.get(name, 0.0), measured["FLOP/s"])
    return rates


def measure_peaks(threads: int) -> Peaks:
    counts = sorted({1, threads})
    return parse_peaks(run_bench([find_bench("peak"), *map(str, counts)]))


def measure_linears(shapes: list[str], tokens: int, threads: int) -> dict[str, float]:
    """INPUTSxOUTPUTS, int4 weights, bf16 activations; a shape that kernel_bench does not have is left out."""
    arguments = "|".join(shape.replace("x", "/") for shape in shapes)
    options = [f"--benchmark_filter=^({'|'.join(KINDS)})/bf16/{tokens}/({arguments})/", "--benchmark_format=json"]
    environment = os.environ | {"MEBP_BENCH_THREADS": str(threads)}
    command = [find_bench("kernel_bench"), *options, "--benchmark_min_time=0.03", "--benchmark_repetitions=5"]
    return parse_kernel_bench(run_bench(command, environment))


def run_bench(command: list[str], environment: dict | None = None) -> str:
    """What it prints. Raises RuntimeError with its last line of errors where it fails."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(last_line(done.stderr, command, done.returncode))
    return done.stdout
