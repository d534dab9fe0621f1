# SPDX-License-Identifier: Apache-2.0
"""What gradients are compared on: random tokens, and an adapter that has already learned something."""

import numpy as np

from mebp.arrays import IGNORED_LABEL
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
    labels = ids.copy()
    if session.task != CAUSAL:
        ids = np.where(ids == padding, (ids + 1) % session.vocabulary, ids)  # which would have no position of its own
        labels = generator.integers(0, len(session.classes) or session.vocabulary, ids.shape, dtype=np.int32)
    if session.task == CLASSIFY:
        labels[:, 1:] = IGNORED_LABEL
    labels[:, 9::10] = IGNORED_LABEL
    return ids, labels


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
