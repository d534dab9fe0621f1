# SPDX-License-Identifier: Apache-2.0
"""Training data: text files to rows of tokens, and the rows' order."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.errors import Error
from mebp.tokenizer import Tokenizer


@dataclass(frozen=True)
class Dataset:
    """Tokens packed into rows of one length; only the last may be shorter."""

    rows: list[np.ndarray]  # int32
    padding: int  # fills up a shorter row within a batch; its labels do not count
    digest: str  # of the file's bytes: a resumed run must see the same

    @property
    def tokens(self) -> int:
        return sum(len(row) for row in self.rows)

    def steps_per_epoch(self, batch: int) -> int:
        return -(-len(self.rows) // batch)

    def batch(self, step: int, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids and labels [up to batch, length] of a step, counted from 0.

        Each epoch is a permutation that depends on the seed and the epoch alone, so a step number says where the data
        stands. An epoch's last batch may have fewer rows.
        """
        epoch, position = divmod(step, self.steps_per_epoch(batch))
        order = np.random.default_rng([seed, epoch]).permutation(len(self.rows))
        rows = [self.rows[index] for index in order[position * batch : (position + 1) * batch]]
        shape = (len(rows), max(len(row) for row in rows))
        ids = np.full(shape, self.padding, dtype=np.int32)
        labels = np.full(shape, IGNORED_LABEL, dtype=np.int32)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = labels[index, : len(row)] = row
        return ids, labels


def load_dataset(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int) -> Dataset:
    """Packs a file of plain text (one document), or of JSON lines with "text" (a document each), into rows of `length`.

    An end-of-text token follows each document. Raises mebp.Error where the file cannot be read or has no text.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise Error(f"{path}: cannot be read ({error.strerror}); check --data") from error
    except UnicodeDecodeError as error:
        raise Error(f"{path}: is not UTF-8 at byte {error.start}; convert it") from error
    documents = _json_lines(path, text) if path.suffix in (".jsonl", ".json") else [text]
    tokens = [token for document in documents for token in [*tokenizer.encode(document), tokenizer.end_of_text]]
    rows = [np.array(tokens[start : start + length], dtype=np.int32) for start in range(0, len(tokens), length)]
    rows = [row for row in rows if len(row) > 1]  # one token predicts nothing
    if not text.strip() or not rows:
        raise Error(f"{path}: has no text to train on")
    return Dataset(rows, tokenizer.end_of_text, hashlib.sha256(content).hexdigest())


def _json_lines(path: Path, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise Error(f"{path}:{number}: is not JSON ({error}); write one object a line") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            found = ", ".join(f'"{key}"' for key in entry) if isinstance(entry, dict) else type(entry).__name__
            raise Error(f'{path}:{number}: has {found}; this build reads lines with "text"')
        yield entry["text"]
