# SPDX-License-Identifier: Apache-2.0
"""Odd PEFT folders that a session is given: loaded or refused, and a session that refused one is as it was."""

import json
import random
import struct

import numpy as np

import mebp
from mebp.errors import Error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.mutants import hold
from support.odd_adapters import mutate_object, mutate_tensors
from support.pipeline import make_bundle


def test_odd_adapters_are_loaded_or_refused(tmp_path):
    session = mebp.Session(make_bundle(models.build("llama"), tmp_path, seq_len=16))
    randomise_adapter(session)
    odd = tmp_path / "odd"
    session.save_adapter(odd)
    settings = json.loads((odd / "adapter_config.json").read_text())
    stored = (odd / "adapter_model.safetensors").read_bytes()
    length = struct.unpack("<Q", stored[:8])[0]
    header, data = json.loads(stored[8 : 8 + length]), stored[8 + length :]
    expected = {name: values.copy() for name, values in session.trainables().items()}

    def make(choose: random.Random) -> str:
        which = choose.choice(["settings", "settings", "tensors", "both"])
        text, said = mutate_object(settings, choose) if which != "tensors" else (json.dumps(settings), "")
        content, also = mutate_tensors(header, data, choose if which != "settings" else random.Random(0))
        (odd / "adapter_config.json").write_text(text, errors="surrogatepass")
        (odd / "adapter_model.safetensors").write_bytes(content)
        return f"{which}: {said} / {also}"

    def read(choose: random.Random) -> None:
        try:
            session.load_adapter(odd)
        except Error:
            if choose.random() < 0.1:
                found = session.trainables()
                assert all(np.array_equal(values, found[key], equal_nan=True) for key, values in expected.items())
            raise
        expected.update({name: values.copy() for name, values in session.trainables().items()})

    hold(make, read, ["odd"])
