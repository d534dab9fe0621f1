# SPDX-License-Identifier: Apache-2.0
"""The reference that preferences and rewards are compared with: the base model, or another adapter of it.

The session that trains computes it: its own adapter is set aside for that, where gradients will be.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from mebp.cache import check_writers, make_cache_folder
from mebp.data.reference_file import MadeFrom, ReferenceFile, open_reference
from mebp.distributed.group import joined
from mebp.errors import Error
from mebp.files import read_bytes
from mebp.session import Session
from mebp.tools import cache_folder
from mebp.training.options import TrainingOptions

BASE, INITIAL = "base", "initial"


def _named_file(options: TrainingOptions) -> Path | None:
    """The file that --reference names, there or still to be written; None where it is another thing."""
    chosen = options.reference or INITIAL
    return Path(chosen) if chosen not in (BASE, INITIAL) and not Path(chosen).is_dir() else None


def check_unkept(options: TrainingOptions) -> None:
    """Raises mebp.Error where a file should keep what it says of sequences that the run makes up."""
    if file := _named_file(options):
        raise Error(
            f"--reference {file}: is not a folder, and a file keeps log-probabilities of pairs "
            "alone; give base, initial or a PEFT folder"
        )


class Reference:
    """By --reference: base, initial (the adapter that the run begins with), a PEFT folder, or a file of what it says of
    the training data."""

    def __init__(self, options: TrainingOptions) -> None:
        self.file = _named_file(options)
        chosen = INITIAL if self.file else options.reference or INITIAL
        self._folder = {BASE: None, INITIAL: options.adapter}.get(chosen, Path(chosen))
        self._bundle = options.bundle
        self._trainables: Mapping[str, np.ndarray] | None = None
        self._digest = ""  # of its adapter
        self.note = ""
        if options.adapter and self._folder is None:
            self.note = f"--reference base: {options.adapter} is trained on, and compared with the model without it"

    def begin(self, session: Session) -> None:
        """Reads its adapter, by the session, whose own is there again afterwards. Raises mebp.Error where it does not
        fit. Of several processes the first reads it, for all."""
        group = joined()
        if self._folder is not None and (group is None or group.is_first):
            self._read(session, self._folder)
        if group is None:
            return
        self._digest = str(group.gather_json(self._digest)[0])
        if self._digest:
            self._trainables = self._trainables or session.trainables()
            for values in self._trainables.values():
                group.broadcast(values)

    def _read(self, session: Session, folder: Path) -> None:
        own = session.trainables()
        try:
            session.load_adapter(folder)
            self._trainables = session.trainables()
        finally:
            session.set_trainables(own)
        self._digest = sha256(read_bytes(folder / "adapter_model.safetensors", "check --reference")).hexdigest()

    def logprobs(self, session: Session, ids: np.ndarray, mask: np.ndarray, temperature: float = 1.0) -> np.ndarray:
        """As Session.logprobs."""
        adapter = False if self._trainables is None else self._trainables
        return session.logprobs(ids, mask, adapter=adapter, temperature=temperature)

    def kept(self, data: str, lengths: Sequence[int], file: Path | None = None) -> ReferenceFile:
        """What it says of completions of these lengths, of data with this digest: in `file`, or in the cache.

        In a temporary file where the cache cannot be written, or everybody may write to it. Raises mebp.Error where
        the file is of others.
        """
        bundle = sha256(read_bytes(self._bundle / "program.pb", "check the bundle")).hexdigest()
        made_from = MadeFrom(bundle, self._digest, data)
        if file:
            return open_reference(file, made_from, lengths)
        name = sha256(repr(made_from).encode()).hexdigest()[:32] + ".safetensors"
        with suppress(Error):
            make_cache_folder()
            folder = cache_folder() / "references"
            check_writers(folder)
            return open_reference(folder / name, made_from, lengths)
        with tempfile.TemporaryDirectory(prefix="mebp-") as folder:  # which is mapped, and stays until it is of no use
            return open_reference(Path(folder) / name, made_from, lengths)
