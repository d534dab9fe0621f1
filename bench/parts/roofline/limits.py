# SPDX-License-Identifier: Apache-2.0
"""What a machine can do at most: arithmetic in registers, and bytes between memory and a core.

Both programs are built with -DMEBP_BUILD_BENCH=ON.
"""

from dataclasses import dataclass

from parts.speed.rates import find_bench, measure_peaks, parse_peaks, run_bench

ARITHMETIC = {"amx_bf16": "bf16 tiles", "avx512_bf16": "bf16 dots"}  # of the rest: f32 FMA
F32 = "f32 FMA"


@dataclass(frozen=True)
class Limits:
    kind: str  # of the arithmetic, in the words of the program `peak`
    flops: float  # a second, of that kind
    f32_flops: float
    bytes: float  # a second: the faster one of reading, and of reading and writing

    def seconds(self, flops: float, moved: float) -> float:
        """The least that a call can take."""
        return max(flops / self.flops, moved / self.bytes)


def choose(peaks: dict, rates: dict, kernels: str, threads: int) -> Limits:
    """For a family of kernels. Raises RuntimeError where its arithmetic was not measured."""
    kind = ARITHMETIC.get(kernels, F32)
    if kind not in peaks:
        raise RuntimeError(
            f"peak: has no '{kind}' for {kernels} kernels; set MEBP_KERNELS to a family that this CPU has"
        )
    count = str(threads)
    return Limits(kind, peaks[kind][count], peaks[F32][count], max(rate[count] for rate in rates.values()))


def measure_limits(kernels: str, threads: int) -> Limits:
    rates = parse_peaks(run_bench([find_bench("memory_rate"), str(threads)]))
    return choose(measure_peaks(threads), rates, kernels, threads)
