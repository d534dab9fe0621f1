# SPDX-License-Identifier: Apache-2.0
"""What four bits and training do to a real model."""

import numpy as np
import pytest
import torch

import mebp
from support.pipeline import reference_for

LEARNING_RATE = 2e-4


def perplexity_of_source(model: torch.nn.Module, rows: np.ndarray) -> float:
    with torch.no_grad():
        losses = [model(input_ids=torch.from_numpy(row[None]), labels=torch.from_numpy(row[None])).loss for row in rows]
    return float(np.exp(np.mean([loss.item() for loss in losses])))


@pytest.mark.parametrize(
    ("text", "name"), [("long_rows", "the examples"), ("wikitext", "wikitext-2 test")], ids=["examples", "wikitext"]
)
def test_int4_keeps_the_perplexity(smollm2, text, name, request, show):
    rows = request.getfixturevalue(text)
    session = mebp.Session(smollm2.bundle)
    ours = float(np.exp(np.mean([session.loss(row[None], row[None]) for row in rows])))
    source = perplexity_of_source(smollm2.model, rows)
    show(f"SmolLM2-135M, {name}, {rows.size:,} tokens: perplexity {ours:.3f}, source {source:.3f}")
    assert abs(ours / source - 1) < 0.005


def losses_of_torch(reference, rows: np.ndarray) -> np.ndarray:
    optimizer = torch.optim.AdamW(reference.parameters().values(), lr=LEARNING_RATE, weight_decay=0.0)
    losses = []
    for row in rows:
        optimizer.zero_grad()
        loss = reference.loss(row[None], row[None])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def test_training_follows_torch(smollm2, short_rows, show):
    session = mebp.Session(smollm2.bundle, lr=LEARNING_RATE)
    sdpa, eager = (
        losses_of_torch(
            reference_for(smollm2.bundle, session, smollm2.model, torch.float32, attention=attention), short_rows
        )
        for attention in ("sdpa", "eager")
    )
    ours = np.array([session.step(row[None], row[None]).loss for row in short_rows])
    difference, own = np.abs(ours - sdpa).max(), np.abs(eager - sdpa).max()
    show(
        f"{len(ours)} steps at lr {LEARNING_RATE:g}: losses within {difference:.1e} of torch's (sdpa, eager: {own:.1e})"
    )
    last_bits = 4 * float(np.spacing(np.float32(sdpa.max())))  # of the losses themselves, which are float32
    assert difference <= 2 * own + last_bits
