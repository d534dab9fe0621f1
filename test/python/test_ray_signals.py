# SPDX-License-Identifier: Apache-2.0
"""How a caller of mebp.ray.fit watches the run: with a trainer and a desk that Ray has no part in."""

import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from mebp.ray import fitting

TOLD = {"kept": None, "steps": 3, "loss": 1.0, "test_loss": None, "workers": 2}


class Run:
    """A run that ends when it is asked to stop, or by itself. `press` is called each time lines are asked for."""

    def __init__(self, press, endless: bool = True) -> None:
        self.press, self.stops, self.stopping = press, 0, threading.Event()
        if not endless:
            self.stopping.set()

    def fit(self) -> SimpleNamespace:
        assert self.stopping.wait(20)
        return SimpleNamespace(return_value=dict(TOLD))

    def take_lines(self) -> list:
        self.press()
        return []

    def stop(self) -> None:
        self.stops += 1
        self.stopping.set()

    def desk(self) -> SimpleNamespace:
        calls = {"take_lines": self.take_lines, "stop": self.stop, "refusal": lambda: None, "restarts": lambda: 0}
        return SimpleNamespace(**{name: SimpleNamespace(remote=call) for name, call in calls.items()})


@pytest.fixture(autouse=True)
def without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda found: found))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_lines_are_asked_for_stops_the_run(number):
    presses = iter([number])
    run = Run(lambda: [signal.raise_signal(each) for each in presses])
    done, stopped_by = fitting._watched(run, run.desk(), 0)
    assert (done.steps, stopped_by, run.stops) == (3, number, 1)
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_second_one_ends_the_call():
    run = Run(lambda: signal.raise_signal(signal.SIGINT))
    run.stop = lambda: None  # nobody listens
    with pytest.raises(KeyboardInterrupt):
        fitting._watched(run, run.desk(), 0)
    run.stopping.set()


def test_one_that_comes_when_all_is_done_stops_nothing():
    run = Run(lambda: None, endless=False)
    run.press = lambda: signal.raise_signal(signal.SIGINT) if run.stopping.is_set() and ended() else None

    def ended() -> bool:
        return not any(thread.name == "mebp-ray" for thread in threading.enumerate())

    done, stopped_by = fitting._watched(run, run.desk(), 0)
    assert (done.steps, run.stops) == (3, 0) and stopped_by is None
