# SPDX-License-Identifier: Apache-2.0
"""How long a run takes, as it says it before and after three steps."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mebp.training import duration
from mebp.training.duration import Duration
from mebp.training.options import TrainingOptions


class Work:
    """An objective whose steps have 100 tokens but for the second one, which has half."""

    step_is_planned = True

    def __init__(self, evaluates: bool) -> None:
        self._evaluates = evaluates

    def work(self, session: object, number: int) -> float:
        return 50.0 if number == 1 else 100.0

    def mean_work(self, session: object) -> float:
        return 100.0

    def steps_of_evaluation(self, session: object) -> float:
        return 10.0

    def measures(self, which: str) -> bool:
        return self._evaluates


def session(**plan: object) -> SimpleNamespace:
    plan = {"arenas": {"trainables": 10_000_000, "optimizer": 20_000_000}, **plan}
    return SimpleNamespace(plan=plan, steps=0, max_batch=2, max_sequence=100)


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(duration.time, "perf_counter", lambda: now[0])
    return now


def told(run: Duration, of: SimpleNamespace, clock: list[float], seconds: list[float]) -> list[str]:
    found = run.predicted()
    for each in seconds:
        with run.timed():
            clock[0] += each
        of.steps += 1
        found += run.measured()
    return found


def options(**given: object) -> TrainingOptions:
    return TrainingOptions("a.mebp", "b.txt", **given)


def test_three_steps_tell_it(clock):
    of = session()
    run = Duration(options(), of, Work(False), 381, 127)
    assert told(run, of, clock, [2.0, 0.3, 0.6, 9.0, 9.0]) == ["about 3.8 min: 381 steps of 0.6 s"]
    assert run.measured() == []


@pytest.mark.parametrize(
    ("given", "evaluates", "total", "line"),
    [
        ({}, False, 381, "about 3.8 min: 381 steps of 0.6 s"),
        ({}, True, 381, "about 4.1 min: 381 steps of 0.6 s and 3 evaluations of 6 s"),
        ({}, True, 400, "about 4.4 min: 400 steps of 0.6 s and 4 evaluations of 6 s"),
        ({"state": Path("s"), "save_every": 10}, False, 381, "about 4 min: 381 steps of 0.6 s"),
        ({}, False, 30, "about 18 s: 30 steps of 0.6 s"),
        ({}, False, 60_000, "about 10 h: 60,000 steps of 0.6 s"),
    ],
)
def test_evaluations_and_saves_count(clock, given, evaluates, total, line):
    of = session()
    assert told(Duration(options(**given), of, Work(evaluates), total, 127), of, clock, [0.6, 0.3, 0.6]) == [line]


def test_rates_tell_it_before(clock):
    of = session(calibrated=True, predicted_seconds=2.0)
    assert told(Duration(options(), of, Work(False), 90, 30), of, clock, [5.0] * 4) == ["about 90 s: 90 steps of 1 s"]
    other = Work(False)
    other.step_is_planned = False  # of pairs, say
    assert told(Duration(options(), of, other, 94, 30), of, clock, [5.0] * 4)[0].startswith("about 7")


def test_a_run_of_three_steps_says_nothing(clock):
    of = session()
    assert told(Duration(options(), of, Work(False), 3, 3), of, clock, [1.0] * 3) == []


def test_short_steps_are_watched_longer(clock):
    of = session()
    run = Duration(options(), of, Work(False), 1000, 1000)
    assert told(run, of, clock, [0.01, 0.005, *[0.01] * 50]) == []
    assert told(run, of, clock, [0.2] * 3 + [9.0]) == ["about 21 s: 1,000 steps of 0.021 s"]
