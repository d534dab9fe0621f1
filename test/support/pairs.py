# SPDX-License-Identifier: Apache-2.0
"""What tests of objectives of pairs have in common: data, bundles, and an objective whose gradients are watched."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.data.dataset import rows_of_step
from mebp.data.preferences import Preference, load_preferences
from mebp.tokenizer import Tokenizer
from mebp.training.objectives import make_objective
from mebp.training.objectives.base import Objective
from mebp.training.objectives.pair_ways import DEFERRED, INTERLEAVED, SCORED_FIRST
from mebp.training.options import TrainingOptions
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle
from support.textmodel import make_tokenizer

LENGTH, BETA = 48, 0.5
PAIRS = [
    {"prompt": "When is the lamp lit?", "chosen": " Before sunset.", "rejected": " At noon, or never at all."},
    {"prompt": "Who trims it?", "chosen": " The keeper, each morning.", "rejected": " Nobody."},
    {"prompt": "Is the wick new?", "chosen": " Yes.", "rejected": " No, it is not."},
    {"prompt": "And the oil?", "chosen": " It is colza oil.", "rejected": " Water."},
]

Prepared = tuple[Objective, mebp.Session, list[dict]]


def make_source(folder: Path) -> Path:
    """The model that reads text, in source/, and PAIRS in pairs.jsonl."""
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    return folder


def make_bundles(folder: Path) -> dict[int, Path]:
    """By the batch that they were compiled for."""
    made = {}
    for batch in (1, 2):
        (folder / str(batch)).mkdir()
        made[batch] = make_bundle(folder / "source", folder / str(batch), seq_len=LENGTH, batch=batch)
    return made


def prepare(
    name: str, bundle: Path, folder: Path, monkeypatch, accumulate: int = 1, lr: float = 0.5, **options: object
) -> Prepared:
    """The objective, its session with a random adapter, and what the next steps leave before they are applied."""
    monkeypatch.setenv("MEBP_CACHE", str(folder / "cache"))
    asked = TrainingOptions(bundle, folder / "pairs.jsonl", objective=name, accumulate=accumulate,
                            objective_options={"beta": BETA, **options})  # fmt: skip
    objective = make_objective(asked, Tokenizer(bundle), LENGTH)
    session = mebp.Session(bundle, optimizer="sgd", lr=lr, **objective.session_options())
    randomise_adapter(session, seed=1)
    list(objective.begin(session))
    gradients = []
    apply = session.apply

    def watched():
        gradients.append(session.gradients())
        return apply()

    monkeypatch.setattr(session, "apply", watched)
    return objective, session, gradients


def pairs_of_step(step: int, folder: Path, bundle: Path, accumulate: int = 2) -> list[Preference]:
    """Those that this step takes."""
    pairs = load_preferences(folder / "pairs.jsonl", Tokenizer(bundle), LENGTH).rows
    return [pairs[row] for row in rows_of_step(len(pairs), step, accumulate, 0)]


def check_ways_agree(prepare_for: Callable[[int], Prepared]) -> None:
    """Three steps of several pairs have one gradient, however the coefficient comes. prepare_for: by the batch."""
    found = {}
    for way, batch in ((DEFERRED, 1), (INTERLEAVED, 2), (SCORED_FIRST, 1)):
        objective, session, gradients = prepare_for(batch)
        objective._way = replace(objective._way, name=way)
        steps = [objective.step(session, number) for number in range(3)]
        found[way] = gradients, [step.result.loss for step in steps], [dict(step.metrics) for step in steps]
    for way in (INTERLEAVED, SCORED_FIRST):
        pairs = list(zip(found[way][0], found[DEFERRED][0], strict=True))
        for key in pairs[0][0]:
            # Of all steps together: of one whose pairs are told apart by now, the coefficient is e^-margin, whose
            # relative error is the margin's rounding, whichever way it is computed.
            mine, theirs = (np.stack([step[key] for step in steps]) for steps in zip(*pairs, strict=True))
            assert relative_error(mine, theirs) <= 5e-6, (way, key)
        assert found[way][1] == pytest.approx(found[DEFERRED][1], rel=1e-5)
        for mine, theirs in zip(found[way][2], found[DEFERRED][2], strict=True):
            assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-5)
