# SPDX-License-Identifier: Apache-2.0
"""How long a run takes: said before its first step where the machine is calibrated, else after three."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

from mebp.session import Session
from mebp.training.objectives import Objective
from mebp.training.options import TrainingOptions
from mebp.words import counted

_TRIED = 3  # steps, or as many as take this long
_ENOUGH = 1.0  # seconds
_WRITTEN = 100e6  # bytes a second, synced
_FEW = 1e-3  # seconds


class Duration:
    """Of the steps that are left, with their evaluations and saves, if the run does not stop early."""

    def __init__(self, options: TrainingOptions, session: Session, objective: Objective, total: int, eval_every: int):
        self._options, self._session, self._objective, self._total = options, session, objective, total
        self._eval_every, self._first = eval_every, session.steps
        self._seconds: list[float] = []  # of steps as long as the mean one
        self._watched = 0.0  # seconds
        self._told = total - self._first <= _TRIED

    def predicted(self) -> list[str]:
        """By the rates of `mebp calibrate`, where the plan has them and a step is what the plan is of."""
        plan, objective, options = self._session.plan, self._objective, self._options
        if self._told or not (plan.get("calibrated") and objective.step_is_planned and not options.connect):
            return []
        self._told = True
        whole = self._session.max_batch * self._session.max_sequence
        return [self._line(plan["predicted_seconds"] * objective.mean_work(self._session) / whole)]

    @contextmanager
    def timed(self) -> Iterator[None]:
        """A step; one that raises ends the run."""
        if self._told:
            yield
            return
        number, began = self._session.steps, time.perf_counter()
        mean, own = (self._objective.mean_work(self._session), self._objective.work(self._session, number))
        yield
        seconds = time.perf_counter() - began
        self._watched += seconds
        self._seconds.append(seconds * mean / max(own, 1e-9))

    def measured(self) -> list[str]:
        """After the steps that tell it, once."""
        tried = len(self._seconds)
        short = self._watched < _ENOUGH and tried < (self._total - self._first) // 10  # too short to tell by three
        if self._told or tried < _TRIED or short:
            return []
        self._told = True
        return [self._line(fmean(self._seconds[1:]))]  # the first one also reads the weights

    def _line(self, step: float) -> str:
        left = self._total - self._first
        seconds = step * left
        parts = [f"{counted(left, 'step')} of {_short(step)}"]
        if self._objective.measures("eval"):
            evaluations = self._total // self._eval_every - self._first // self._eval_every
            evaluations += self._total % self._eval_every > 0
            each = step * self._objective.steps_of_evaluation(self._session)
            seconds += each * evaluations
            parts.append(f"{counted(evaluations, 'evaluation')} of {_short(each)}")
        seconds += self._saves() * self._state_bytes() / _WRITTEN
        return f"about {_long(seconds)}: {' and '.join(parts)}"

    def _saves(self) -> int:
        options, saves = self._options, 0
        if options.state:
            saves += self._total // options.save_every - self._first // options.save_every + 1
        return saves + bool(options.adapter_out or options.model_out)

    def _state_bytes(self) -> int:
        arenas = self._session.plan["arenas"]
        return arenas.get("trainables", 0) + arenas.get("optimizer", 0)


def _short(seconds: float) -> str:
    return f"{max(seconds, _FEW):.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _long(seconds: float) -> str:
    """In the unit that a person would choose, to two digits."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.2g} min" if seconds < 600 else f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.2g} h" if hours < 100 else f"{hours / 24:.0f} days"
