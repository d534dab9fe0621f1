# SPDX-License-Identifier: Apache-2.0
"""The run's figures for the programs that draw them: TensorBoard, Weights & Biases, Trackio."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from mebp.errors import Error, reason, translate_errors
from mebp.training.log import Answer, Entry, Evaluation, Record, Test, numbers_of

_PREFIXES = {Record: "train", Evaluation: "eval", Test: "test"}
_NAMES = {"eval_loss": "loss", "test_loss": "loss", "lr": "learning_rate"}  # as transformers' Trainer has them


def figures(entry: Entry) -> dict[str, float]:
    """What is drawn of a line of the log, by its name in the program."""
    prefix = _PREFIXES[type(entry)]
    return {f"{prefix}/{_NAMES.get(name, name)}": value for name, value in numbers_of(entry).items()}


class Report(Protocol):
    """One program that takes the run's figures."""

    where: str  # for a reader
    key: str  # by which a resumed run finds what it has reported before

    def write(self, entry: Entry) -> None: ...
    def close(self) -> None: ...


class _TensorBoard:
    def __init__(self, name: str, config: Mapping[str, object], key: str | None, first: int) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        root = Path(os.environ.get("TENSORBOARD_LOGGING_DIR") or "runs")
        self.key = key or str((root / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}").absolute())
        self.where = f"tensorboard --logdir {Path(self.key).parent}"
        self._writer = EventFileWriter(self.key, flush_secs=10)
        if key:  # what a killed run wrote beyond its state is forgotten
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._writer.add_event(self._event(wall_time=time.time(), step=first + 1, session_log=start))

    def write(self, entry: Entry) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in figures(entry).items()]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=entry.step, summary=summary))

    def close(self) -> None:
        self._writer.close()


class _Tracker:
    """Weights & Biases, and Trackio, which has its interface."""

    def __init__(self, package: str, start: Callable[[object], object], key: Callable[[object], str]) -> None:
        self._module = import_module(package)
        run = start(self._module)
        self.key = key(run)
        self.where = f"{package}, run {getattr(run, 'name', None) or self.key}"

    def write(self, entry: Entry) -> None:
        # The test's step may lie before the last one, and steps may not go back there.
        step = None if isinstance(entry, Test) else entry.step
        self._module.log(figures(entry), step=step)

    def close(self) -> None:
        self._module.finish()


def _wandb(name: str, config: Mapping[str, object], key: str | None, first: int) -> Report:
    settings = {"project": os.environ.get("WANDB_PROJECT", "mebp"), "config": dict(config)}
    settings |= {"id": key, "resume": "allow"} if key else {"name": os.environ.get("WANDB_NAME", name)}
    return _Tracker("wandb", lambda module: module.init(**settings), lambda run: run.id)


def _trackio(name: str, config: Mapping[str, object], key: str | None, first: int) -> Report:
    name = key or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    settings = {"project": os.environ.get("TRACKIO_PROJECT", "mebp"), "config": dict(config), "name": name}
    return _Tracker("trackio", lambda module: module.init(**settings, resume="allow"), lambda run: name)


_PROGRAMS = {"tensorboard": _TensorBoard, "wandb": _wandb, "trackio": _trackio}


def programs(names: str) -> list[str]:
    """Those that a list with commas names. Raises mebp.Error for one that mebp does not know."""
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in _PROGRAMS:
            raise Error(f"--report-to is '{name}'; choose {', '.join(_PROGRAMS)}, or several with commas")
    return list(dict.fromkeys(chosen))


def check_installed(names: str | None) -> None:
    """Raises mebp.Error with what to type where one is not."""
    for name in programs(names) if names else []:
        if find_spec(name) is None:
            raise Error(f"--report-to {name}: {name} is not installed; install it with: pip install {name}")


class Reports:
    """All that a run reports to. One that fails is left out from then on: a run does not end by it."""

    def __init__(self, opened: dict[str, Report], say: Callable[[str], None]) -> None:
        self._opened, self._say = opened, say

    def write(self, entry: Entry) -> None:
        if isinstance(entry, Answer):  # which is no figure
            return
        for name, report in list(self._opened.items()):
            try:
                report.write(entry)
            except Exception as error:  # whatever these programs raise
                del self._opened[name]
                self._say(f"{name}: {reason(error)}; the run goes on and reports there no more")

    @property
    def keys(self) -> dict[str, str]:
        """By which a resumed run finds them."""
        return {name: report.key for name, report in self._opened.items()}


@contextmanager
def opened_reports(
    names: str | None,
    run: str,
    config: Mapping[str, object],
    keys: Mapping[str, str],
    first: int,
    say: Callable[[str], None],
) -> Iterator[Reports]:
    """The programs that `names` has, for a run of that name after step `first`; `keys` are those of the run before it
    was stopped. Raises mebp.Error where one cannot be started."""
    with ExitStack() as stack:
        opened = {}
        for name in programs(names) if names else []:
            with translate_errors(f"--report-to {name}: cannot be started", "mend that or leave it out", Exception):
                report = _PROGRAMS[name](run, config, keys.get(name), first)
            stack.callback(_close, name, report, say)
            opened[name] = report
            say(f"reports to {report.where}")
        yield Reports(opened, say)


def _close(name: str, report: Report, say: Callable[[str], None]) -> None:
    try:
        report.close()
    except Exception as error:
        say(f"{name}: {reason(error)}; the last steps may be missing there")
