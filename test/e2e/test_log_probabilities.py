# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and entropies by token, against transformers in float64 with the bundle's own weights."""

import numpy as np
import pytest
import torch

import mebp
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle, reference_for


def truth(bundle, session, model, ids, labels):
    """Both of each label, at its place, in float64."""
    logits = torch.from_numpy(reference_for(bundle, session, model, torch.float64).logits(ids))
    ahead = logits[:, :-1].log_softmax(-1)
    found = ahead.gather(-1, torch.from_numpy(np.maximum(labels[:, 1:, None], 0)).long())[..., 0]
    entropy = -(ahead.exp() * ahead).sum(-1)
    counts = torch.from_numpy(labels[:, 1:] >= 0)
    first = torch.zeros(len(ids), 1, dtype=torch.float64)
    return [torch.cat([first, values * counts], 1).numpy() for values in (found, entropy)]


def distance(values, exact):
    return np.linalg.norm(values - exact) / np.linalg.norm(exact)


def compare(bundle, session, model, ids, labels, show):
    found = session.log_probabilities(ids, labels)
    exact = truth(bundle, session, model, ids, labels)
    errors = [distance(values, expected) for values, expected in zip(found, exact, strict=True)]
    show(f"{bundle.parent.name}: log-probabilities {errors[0]:.1e}, entropy {errors[1]:.1e}")
    assert max(errors) <= 2e-5
    for values in found:
        assert values.shape == ids.shape and values.dtype == np.float32
        assert not values[labels < 0].any() and not values[:, 0].any()
    counted = (labels[:, 1:] >= 0).sum()
    assert session.loss(ids, labels) == pytest.approx(-found[0].sum(dtype=np.float64) / counted, rel=1e-6)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "gemma3_text"])
def test_tiny(tmp_path, show, family):
    model = models.build(family)
    bundle = make_bundle(model, tmp_path, seq_len=40, batch=3)
    session = mebp.Session(bundle)
    randomise_adapter(session, scale=0.5)
    random = np.random.default_rng(5)
    ids = random.integers(0, session.vocabulary, (2, 33))
    labels = np.where(random.random(ids.shape) < 0.4, -100, ids)
    compare(bundle, session, model, ids, labels, show)


def test_smollm2(smollm2, long_rows, show):
    ids = long_rows[:1, :64]
    labels = np.where(np.arange(64) % 5 == 3, -100, ids)
    compare(smollm2.bundle, mebp.Session(smollm2.bundle), smollm2.model, ids, labels, show)
