# SPDX-License-Identifier: Apache-2.0
"""The run as JSON lines: one a step, and one an evaluation."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.files import read_bytes, replaced_file

_ADVICE = "choose another --log"


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


@dataclass(frozen=True)
class Evaluation:
    """The loss on other data after a step."""

    step: int
    eval_loss: float


class RunLog:
    """Keeps every entry, and writes it to `path` where one is given."""

    def __init__(self, path: Path | None, resume_at: int) -> None:
        """A resumed run keeps the lines of the steps before `resume_at`; what a killed run wrote beyond is redone."""
        self.entries: list[Record | Evaluation] = []
        self._path = path
        if path is None:
            return
        with translate_errors(f"{path}: cannot be written", _ADVICE):
            kept = ""
            if resume_at and path.is_file():
                self.entries = [entry for entry in read_log(path) if entry.step <= resume_at]
                kept = "".join(map(_line, self.entries))
                # Where the run is killed before the new one is whole, the old one stands.
                with replaced_file(path.resolve(), _ADVICE) as unfinished:
                    unfinished.write_text(kept, encoding="utf-8")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a" if kept else "w", encoding="utf-8", buffering=1)

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

    def add(self, entry: Record | Evaluation) -> None:
        self.entries.append(entry)
        if self._path is None:
            return
        with translate_errors(f"{self._path}: cannot be written", "make room or leave out --log"):
            self._file.write(_line(entry))


def _line(entry: Record | Evaluation) -> str:
    return json.dumps(asdict(entry)) + "\n"


def read_log(path: Path) -> list[Record | Evaluation]:
    """Every entry of a log. Raises mebp.Error where the file is none."""
    content = read_bytes(path, _ADVICE)
    whole = content[: content.rfind(b"\n") + 1] or content  # a full disk cuts the last line
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
        return [Evaluation(**line) if "eval_loss" in line else Record(**line) for line in lines]
    except (ValueError, TypeError) as error:
        raise Error(f"{path}: is not a log of mebp train; {_ADVICE}") from error
