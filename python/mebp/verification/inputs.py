# SPDX-License-Identifier: Apache-2.0
"""What gradients are compared on: random tokens, and an adapter that has already learned something."""

from collections.abc import Mapping

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.inspect import inspect
from mebp.remote_adapters import kind_of
from mebp.session import Session
from mebp.tasks import CAUSAL, CLASSIFY


def random_batch(
    session: Session, sequence: int, seed: int = 0, padding: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and labels, int32 [largest batch, sequence], of which every tenth label does not count; of samples' classes
    the first ones alone do. No id of an encoder's is its `padding`."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(0, session.vocabulary, (session.max_batch, sequence), dtype=np.int32)
    for tokens in token_indices(inspect(session.path)).values():  # which random ones would hardly be
        ids[:, :: len(tokens) + 3] = generator.choice(tokens, ids[:, :: len(tokens) + 3].shape)
    labels = ids.copy()
    if session.task != CAUSAL:
        ids = np.where(ids == padding, (ids + 1) % session.vocabulary, ids)  # which would have no position of its own
        labels = generator.integers(0, len(session.classes) or session.vocabulary, ids.shape, dtype=np.int32)
    if session.task == CLASSIFY:
        labels[:, 1:] = IGNORED_LABEL
    labels[:, 9::10] = IGNORED_LABEL
    return ids, labels


def token_indices(description: Mapping) -> dict[str, list[int]]:
    """PEFT's trainable_token_indices of a bundle that mebp.inspect describes so."""
    return {
        _module(each): list(range(each["first_row"], each["first_row"] + each["rows"]))
        for each in description["trainables"]
        if "rows_of" in each
    }


def _module(rows: Mapping) -> str:
    return rows["name"].split(".")[-3]  # before token_adapter.trainable_tokens_delta


def randomise_adapter(session: Session, seed: int = 0, scale: float = 0.05) -> None:
    """B, what lies between A and B, and a value head are zero at first, which would leave other gradients zero. What
    the model itself begins with stays."""
    generator = np.random.default_rng(seed)
    session.set_trainables(
        {
            key: generator.normal(0, scale, values.shape).astype(np.float32)
            if key.endswith(".lora_B.weight") or key.startswith("value_head.") or kind_of(key)
            else values
            for key, values in session.trainables().items()
        }
    )
