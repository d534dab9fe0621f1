# SPDX-License-Identifier: Apache-2.0
"""Learning rates over a run."""

import math

from mebp.words import counted

CONSTANT = "constant"
SCHEDULES = (CONSTANT, "linear", "cosine")
_MANY = 100  # steps


def learning_rate(step: int, total: int, peak: float, schedule: str, warmup: int) -> float:
    """The rate of a step, counted from 0: a linear rise over `warmup` steps to `peak`, then constant or a fall that
    would reach 0 just after the last step."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if schedule == CONSTANT:
        return peak
    progress = (step - warmup) / max(1, total - warmup)
    return peak * (1 - progress if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * progress)))


def learning_rates(
    step: int, total: int, peaks: tuple[float, float | None], schedule: str, warmup: int
) -> tuple[float, float | None]:
    """That of all, and that of embeddings, where they have one."""
    all_of, own = peaks
    rate = learning_rate(step, total, all_of, schedule, warmup)
    return rate, None if own is None else learning_rate(step, total, own, schedule, warmup)


def warmup_notes(total: int, peak: float, warmup: int) -> list[str]:
    """What is to be said of a rise that is not over when the run is."""
    if warmup < total:
        return []
    return [f"--warmup {warmup}: the run has {counted(total, 'step')}, so the learning rate never reaches {peak:g}"]


def schedule_notes(total: int, schedule: str | None) -> list[str]:
    """What is to be said of a long run that was given none."""
    if schedule is not None or total <= _MANY:
        return []
    return [f"the learning rate stays as it is over {total:,} steps; most recipes use "
            "--schedule linear --warmup-ratio 0.03"]  # fmt: skip
