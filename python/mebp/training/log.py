# SPDX-License-Identifier: Apache-2.0
"""The run as JSON lines, one a step."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mebp.errors import Error


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


class RunLog:
    """Keeps every record, and writes it to `path` where one is given."""

    def __init__(self, path: Path | None, resume_at: int) -> None:
        """A resumed run keeps the lines of the steps before `resume_at`; what a killed run wrote beyond is redone."""
        self.records: list[Record] = []
        self._path = path
        if path is None:
            return
        try:
            if resume_at and path.exists():
                self.records = [record for record in _read(path) if record.step <= resume_at]
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8", buffering=1)
            self._file.writelines(json.dumps(asdict(record)) + "\n" for record in self.records)
        except OSError as error:
            raise Error(f"{path}: cannot be written ({error.strerror}); choose another --log") from error

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self._path is None:
            return
        try:
            self._file.write(json.dumps(asdict(record)) + "\n")
        except OSError as error:
            raise Error(f"{self._path}: cannot be written ({error.strerror}); make room or leave out --log") from error


def _read(path: Path) -> list[Record]:
    try:
        return [Record(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (ValueError, TypeError) as error:
        raise Error(f"{path}: is not a log of mebp train; choose another --log") from error
