# SPDX-License-Identifier: Apache-2.0
"""The run as lines: one a step, one an evaluation, and one of the test at the end; of JSON, or of a table (CSV)."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.files import read_bytes, replaced_file

_ADVICE = "choose another --log"
_TABLE = ".csv"


@dataclass(frozen=True)
class Record:
    """One step of a run, counted from 1."""

    step: int
    loss: float
    grad_norm: float
    lr: float
    tokens: int
    seconds: float
    peak_bytes: int
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the objective, by name


@dataclass(frozen=True)
class Evaluation:
    """The loss on other data after a step."""

    step: int
    eval_loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Test:
    """The loss on the test data of what the run has kept, which is of this step."""

    __test__ = False  # pytest would look for tests in it

    step: int
    test_loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What the model said after a step."""

    step: int
    prompt: str
    answer: str
    metrics: Mapping[str, float] = field(default_factory=dict)


Entry = Record | Evaluation | Test | Answer
ANSWERS = {"prompt": str, "answer": str}  # columns of a table that has them
# Each column of a table with its type; an entry fills its own. Those of metrics follow, as an objective names them.
_COLUMNS = {
    each.name: each.type for kind in (Record, Evaluation, Test) for each in fields(kind) if each.name != "metrics"
}


class RunLog:
    """Keeps every entry, and writes it to `path` where one is given."""

    def __init__(
        self, path: Path | None, resume_at: int, table: Path | None = None, metrics: Sequence[str] = ()
    ) -> None:
        """A resumed run keeps the lines of the steps before `resume_at`; what a killed run wrote beyond is redone.

        table: what the run left when it was stopped, for one without a log. metrics: those that entries may have.
        """
        self._metrics = metrics
        self.entries: list[Entry] = []
        self.listeners: list[Callable[[Entry], None]] = []  # called with each new one
        self._path = path
        if path is None:
            if resume_at and table and table.is_file():
                self.entries = [entry for entry in read_log(table) if entry.step <= resume_at]
            return
        with translate_errors(f"{path}: cannot be written", _ADVICE):
            kept = ""
            if resume_at and path.is_file():
                self.entries = [entry for entry in read_log(path) if entry.step <= resume_at]
                kept = _text(path, self.entries, metrics)
                # Where the run is killed before the new one is whole, the old one stands.
                with replaced_file(path.resolve(), _ADVICE) as unfinished:
                    unfinished.write_text(kept, encoding="utf-8")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a" if kept else "w", encoding="utf-8", buffering=1)
            if not kept:
                self._file.write(_header(path, metrics))

    @property
    def records(self) -> list[Record]:
        return [entry for entry in self.entries if isinstance(entry, Record)]

    @property
    def evaluations(self) -> list[Evaluation]:
        return [entry for entry in self.entries if isinstance(entry, Evaluation)]

    @property
    def last_evaluated(self) -> int | None:
        """The step of the last evaluation."""
        return next((entry.step for entry in reversed(self.entries) if isinstance(entry, Evaluation)), None)

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        for listener in self.listeners:
            listener(entry)
        if self._path is None:
            return
        with translate_errors(f"{self._path}: cannot be written", "make room or leave out --log"):
            self._file.write(_line(self._path, entry, self._metrics))


def write_table(entries: Iterable[Entry], path: Path, metrics: Sequence[str] = ()) -> None:
    """All of a run in a file, whole or not at all."""
    with replaced_file(path, "choose another --adapter-out") as unfinished:
        unfinished.write_text(_text(path, entries, metrics), encoding="utf-8")


def read_log(path: Path) -> list[Entry]:
    """Every entry of a log. Raises mebp.Error where the file is none."""
    content = read_bytes(path, _ADVICE)
    whole = content[: content.rfind(b"\n") + 1] or content  # a full disk cuts the last line
    try:
        return [_entry(line) for line in _parse(path, whole.decode())]
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError, csv.Error) as error:
        raise Error(f"{path}: is not a log of mebp train; {_ADVICE}") from error


def _parse(path: Path, text: str) -> list[dict]:
    if path.suffix != _TABLE:
        return [json.loads(line) for line in text.splitlines()]
    rows = csv.DictReader(text.splitlines())
    if rows.fieldnames is not None and list(rows.fieldnames)[: len(_COLUMNS)] != list(_COLUMNS):
        raise ValueError("the columns are others")
    kinds = _COLUMNS | ANSWERS
    return [{name: kinds.get(name, float)(value) for name, value in row.items() if value} for row in rows]


def _entry(line: dict) -> Entry:
    if "prompt" in line:
        return Answer(int(line["step"]), *(str(line.get(name, "")) for name in ANSWERS))
    kinds = {"eval_loss": Evaluation, "test_loss": Test}
    kind = next((kind for name, kind in kinds.items() if name in line), Record)
    metrics = {name: float(line[name]) for name in line if name not in _COLUMNS}
    return kind(**{name: _COLUMNS[name](value) for name, value in line.items() if name in _COLUMNS}, metrics=metrics)


def _text(path: Path, entries: Iterable[Entry], metrics: Sequence[str]) -> str:
    return _header(path, metrics) + "".join(_line(path, entry, metrics) for entry in entries)


def _header(path: Path, metrics: Sequence[str]) -> str:
    return _row([*_COLUMNS, *metrics]) if path.suffix == _TABLE else ""


def _line(path: Path, entry: Entry, metrics: Sequence[str]) -> str:
    values = numbers_of(entry) | {"step": entry.step}
    if path.suffix == _TABLE:
        texts = {name: " ".join(values[name].split()) for name in ANSWERS if name in values}  # a row is a line
        return _row((values | texts).get(name, "") for name in [*_COLUMNS, *metrics])
    return json.dumps({"step": entry.step, **values}) + "\n"


def numbers_of(entry: Entry) -> dict[str, float]:
    """All numbers of an entry but its step, by name; of an answer, its texts."""
    plain = {name: value for name, value in vars(entry).items() if name not in ("step", "metrics")}
    return plain | dict(entry.metrics)


def _row(values: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
