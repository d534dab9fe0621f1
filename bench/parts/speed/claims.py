# SPDX-License-Identifier: Apache-2.0
"""What the project claims of its speed, as ratios within a round, from the answers that bench/speed.py collected."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from parts.speed.cell import (
    CHECKPOINTING,
    CHECKPOINTING_F32,
    LINEARS,
    MATMUL,
    MEBP,
    MEZO,
    ONE_THREAD,
    OPENING,
    PEAKS,
    PEFT,
    PEFT_F32,
    TRACED,
    peft_settings,
)
from parts.speed.rates import KINDS
from parts.spread import Spread

OVER_CHECKPOINTING, OVER_FASTEST = "PEFT with checkpointing / mebp", "PEFT's fastest setting / mebp"
MEMORY, OVER_MEZO = "memory: PEFT with checkpointing / mebp-run, AdamW", "step / MeZO step"
SUMMARY = (OVER_CHECKPOINTING, OVER_FASTEST, MEMORY, OVER_MEZO)  # what a reader wants to know first


@dataclass(frozen=True)
class Claim:
    """`bound` is what the project wants on this machine; empty where it claims nothing."""

    text: str
    bound: str
    measured: Spread

    @property
    def is_missed(self) -> bool:
        """By the median, rounded as tables have it."""
        if not self.bound:
            return False
        sign, limit = self.bound.split()
        median = round(self.measured.median, 2)
        return median < float(limit) if sign == ">=" else median > float(limit)


def seconds(cell: dict, name: str) -> list[float]:
    return [answer["seconds"] for answer in cell["answers"][name]]


def ratios(cell: dict, name: str, other: str) -> Spread:
    """Of seconds, round by round."""
    return Spread.of(a / b for a, b in zip(seconds(cell, name), seconds(cell, other), strict=True))


def checkpointing(cell: dict) -> str:
    """Who that is: PEFT in f32 where torch has no instructions for bf16."""
    return CHECKPOINTING if CHECKPOINTING in cell["answers"] else CHECKPOINTING_F32


def peak_bytes(cell: dict, name: str) -> int:
    return max(answer.get("peak_bytes", 0) for answer in cell["answers"][name])


def claims(cell: dict, machine: dict) -> list[Claim]:
    """Those whose contenders took part."""
    found = []
    for needs, make in CLAIMS:
        if all(name in cell["answers"] for name in needs):
            found += make(cell, "AMX" in machine["onednn"])  # what torch runs on decides what is wanted
    return found


def _peft(cell: dict, _: bool) -> list[Claim]:
    has_bf16 = CHECKPOINTING in cell["answers"]
    settings = zip(*(seconds(cell, name) for name in peft_settings(has_bf16)), strict=True)
    fastest = Spread.of(min(times) / ours for times, ours in zip(settings, seconds(cell, MEBP), strict=True))
    return [
        Claim(OVER_CHECKPOINTING, "", ratios(cell, checkpointing(cell), MEBP)),
        Claim(OVER_FASTEST, ">= 2" if has_bf16 else ">= 1.1", fastest),
    ]


def _memory(cell: dict, tiles: bool) -> list[Claim]:
    ratio = peak_bytes(cell, checkpointing(cell)) / peak_bytes(cell, OPENING)
    bound = ">= 15" if tiles else ""
    return [Claim(MEMORY, bound, Spread(ratio, ratio, ratio))]


def _needed(cell: dict, tiles: bool) -> list[Claim]:
    needed, layers = sum(cell["needed"].values()), _layer_shapes(cell)
    best = [max(answer["flops"][shape] for shape in layers) for answer in cell["answers"][MATMUL]]
    measured = Spread.of(taken * rate / needed for taken, rate in zip(seconds(cell, MEBP), best, strict=True))
    return [Claim("step / the needed arithmetic at torch's best rate", "<= 1.8" if tiles else "", measured)]


def _linears(cell: dict, tiles: bool) -> list[Claim]:
    """Over the layers' shapes, each as often as a layer has it."""
    measured = []
    for linears, peaks in zip(cell["answers"][LINEARS], cell["answers"][PEAKS], strict=True):
        work = taken = 0.0
        for shape, names in _layer_shapes(cell).items():
            inputs, outputs = map(int, shape.split("x"))
            for kind in KINDS:
                if rate := linears["flops"].get(f"{kind}/{shape}"):
                    work += len(names) * inputs * outputs
                    taken += len(names) * inputs * outputs / rate
        if taken:
            measured.append(work / taken / vector_peak(peaks["flops"], cell["threads"]))
    if not measured:
        return []
    return [Claim("linear kernels / the faster peak of vectors", "" if tiles else ">= 0.7", Spread.of(measured))]


def _mezo(cell: dict, _: bool) -> list[Claim]:
    return [Claim(OVER_MEZO, "<= 1.6", ratios(cell, MEBP, MEZO))]


def _threads(cell: dict, _: bool) -> list[Claim]:
    all_threads, one = cell["profiles"][TRACED], cell["profiles"][ONE_THREAD]
    largest = largest_kind(all_threads)
    whole = [a / b for a, b in zip(seconds(cell, ONE_THREAD), seconds(cell, TRACED), strict=True)]
    kernel = [a[largest] / b[largest] for a, b in zip(one, all_threads, strict=True)]
    against = Spread.of(a / b for a, b in zip(whole, kernel, strict=True))
    return [
        Claim(f"one thread / {cell['threads']} threads", ">= 1.6" if cell["threads"] == 2 else "", Spread.of(whole)),
        Claim(f"speed-up by threads: step / {largest}, the largest kernel", ">= 1", against),
    ]


def _opening(cell: dict, _: bool) -> list[Claim]:
    return [Claim("mebp-run, from its start through one step / step", "<= 1.3", ratios(cell, OPENING, MEBP))]


CLAIMS: list[tuple[set[str], Callable[[dict, bool], list[Claim]]]] = [
    (set(PEFT), _peft),
    (set(PEFT_F32), _peft),
    ({CHECKPOINTING, OPENING}, _memory),
    ({CHECKPOINTING_F32, OPENING}, _memory),
    ({MATMUL}, _needed),
    ({LINEARS, PEAKS}, _linears),
    ({MEZO}, _mezo),
    ({TRACED, ONE_THREAD}, _threads),
    ({OPENING}, _opening),
]


def vector_peak(peaks: dict[str, dict[str, float]], threads: int) -> float:
    """The faster of f32 multiply-adds and bf16 dot products; FLOP/s."""
    return max(rates[str(threads)] for kind, rates in peaks.items() if kind != "bf16 tiles")


def largest_kind(steps: list[dict[str, float]]) -> str:
    return max(steps[0], key=lambda kind: statistics.median(step[kind] for step in steps))


def _layer_shapes(cell: dict) -> dict[str, list[str]]:
    return {shape: names for shape, names in cell["shapes"].items() if "lm_head" not in names}
