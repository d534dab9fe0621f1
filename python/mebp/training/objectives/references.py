# SPDX-License-Identifier: Apache-2.0
"""The reference that preferences and rewards are compared with: the base model, or another adapter of it.

Its log-probabilities of a completion never change, so each is computed once, when a step first needs it, by the session
that trains, whose own adapter is set aside for that. They are kept in a file that knows what they were computed of.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from mebp.errors import Error, translate_errors
from mebp.files import make_parent, read_bytes, replaced_file
from mebp.session import Session
from mebp.tools import cache_folder

BASE, INITIAL = "base", "initial"
_KEYS = ("bundle", "reference", "data")
_MAGIC = "mebp references"


class Reference:
    """A model to compare with."""

    def __init__(self, chosen: str, adapter: Path | None) -> None:
        """chosen: "base", "initial", which is `adapter`, the one that the run begins with, if any; or a PEFT folder."""
        self.folder = adapter if chosen == INITIAL else None if chosen == BASE else Path(chosen)
        self._trainables: Mapping[str, np.ndarray] | None = None

    def begin(self, session: Session) -> None:
        """Reads its adapter, by the session, whose own is there again afterwards. Raises mebp.Error where it does not
        fit."""
        if self.folder is None:
            return
        own = session.trainables()
        try:
            session.load_adapter(self.folder)
            self._trainables = session.trainables()
        finally:
            session.set_trainables(own)

    @property
    def digest(self) -> str:
        """Of what it is beside the bundle."""
        if self.folder is None:
            return BASE
        return sha256(read_bytes(self.folder / "adapter_model.safetensors", "check --reference")).hexdigest()

    def logprobs(self, session: Session, ids: np.ndarray, mask: np.ndarray, temperature: float = 1.0) -> np.ndarray:
        """As Session.logprobs."""
        adapter = False if self._trainables is None else self._trainables
        return session.logprobs(ids, mask, adapter=adapter, temperature=temperature)


class ReferenceFile:
    """Numbers [rows, columns] of a data set, by a reference; those that are not there yet are computed and kept."""

    def __init__(self, path: Path | None, identity: Mapping[str, str], rows: int, columns: int) -> None:
        """path: None for one in the cache, by its name. identity: hashes of the bundle, the reference and the data.

        Raises mebp.Error where the file is of others.
        """
        self._identity = {key: identity[key] for key in _KEYS}
        name = sha256(json.dumps(self._identity, sort_keys=True).encode()).hexdigest()[:32]
        self._is_own = path is None
        self.path = path or cache_folder() / "references" / f"{name}.bin"
        self.values = np.full((rows, columns), np.nan)
        self._changed = False
        if self.path.exists():
            self._read()

    def row(self, number: int, compute: Callable[[], object]) -> np.ndarray:
        """float64 [columns]."""
        if np.isnan(self.values[number]).any():
            self.values[number] = compute()
            self._changed = True
        return self.values[number]

    @property
    def missing(self) -> int:
        return int(np.isnan(self.values).any(axis=1).sum())

    def save(self) -> None:
        """Whole or not at all. In a cache that cannot be written, they are computed again the next time."""
        if not self._changed:
            return
        header = json.dumps({"format": _MAGIC, "shape": self.values.shape, **self._identity}).encode()
        try:
            make_parent(self.path, "choose another file for --reference")
            with replaced_file(self.path, "choose another file for --reference") as unfinished:
                unfinished.write_bytes(header + b"\n" + self.values.astype("<f8").tobytes())
        except Error:
            if not self._is_own:
                raise
        self._changed = False

    def _read(self) -> None:
        content = read_bytes(self.path, "check --reference")
        first, _, numbers = content.partition(b"\n")
        with translate_errors(
            f"{self.path}: is not a file of a reference's log-probabilities",
            "give a PEFT folder, base, initial, or a file that mebp train has written",
            (ValueError, TypeError, KeyError, AttributeError),
        ):
            header = json.loads(first)
            if header["format"] != _MAGIC:
                raise ValueError("it was written by something else")
            values = np.frombuffer(numbers, "<f8").reshape(header["shape"])
        for key, what in zip(_KEYS, ("bundle", "reference", "data"), strict=True):
            if header.get(key) != self._identity[key]:
                raise Error(
                    f"{self.path}: has the log-probabilities of another {what}; remove it, or give its own {what}"
                )
        if values.shape != self.values.shape:
            raise Error(f"{self.path}: was cut off; remove it")
        self.values = values.copy()
