# SPDX-License-Identifier: Apache-2.0
"""ORPO: the same gradient in every way of running pairs, exact by TRL's own code, and resumed bitwise."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import mebp
from mebp.data.dataset import rows_of_step
from mebp.data.preferences import load_preferences
from mebp.objectives.orpo import ORPOOptions
from mebp.tokenizer import Tokenizer
from mebp.training.log import Record, read_log
from mebp.training.objectives import make_objective
from mebp.training.objectives.pair_ways import DEFERRED, INTERLEAVED, SCORED_FIRST
from mebp.training.options import TrainingOptions
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models, trl_losses
from support.commands import mebp as command
from support.commands import refusal
from support.pipeline import make_bundle, reference_for
from support.textmodel import make_tokenizer

LENGTH, BETA = 48, 0.5
PAIRS = [
    {"prompt": "When is the lamp lit?", "chosen": " Before sunset.", "rejected": " At noon, or never at all."},
    {"prompt": "Who trims it?", "chosen": " The keeper, each morning.", "rejected": " Nobody."},
    {"prompt": "Is the wick new?", "chosen": " Yes.", "rejected": " No, it is not."},
    {"prompt": "And the oil?", "chosen": " It is colza oil.", "rejected": " Water."},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odds-ratios")
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    return folder


@pytest.fixture(scope="module")
def bundles(folder):
    """By the batch that they were compiled for."""
    made = {}
    for batch in (1, 2):
        (folder / str(batch)).mkdir()
        made[batch] = make_bundle(folder / "source", folder / str(batch), seq_len=LENGTH, batch=batch)
    return made


def prepared(bundle, folder, monkeypatch, accumulate=2, lr=0.5):
    """An objective, its session with a random adapter, and what the next steps leave before they are applied."""
    asked = TrainingOptions(bundle, folder / "pairs.jsonl", objective="orpo", accumulate=accumulate,
                            objective_options={"beta": BETA})  # fmt: skip
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


def test_ways_agree(bundles, folder, monkeypatch):
    """Two pairs a step: their sum, whichever gradient waits."""
    found = {}
    for way, batch in ((DEFERRED, 1), (INTERLEAVED, 2), (SCORED_FIRST, 1)):
        objective, session, gradients = prepared(bundles[batch], folder, monkeypatch)
        objective._way = replace(objective._way, name=way)
        steps = [objective.step(session, number) for number in range(3)]
        found[way] = gradients, [step.result.loss for step in steps], [dict(step.metrics) for step in steps]
    for way in (INTERLEAVED, SCORED_FIRST):
        for mine, theirs in zip(found[way][0], found[DEFERRED][0], strict=True):
            # Either is within 2e-5 of the truth.
            assert max(relative_error(mine[key], theirs[key]) for key in mine) <= 4e-5, way
        assert found[way][1] == pytest.approx(found[DEFERRED][1], rel=1e-5)
        for mine, theirs in zip(found[way][2], found[DEFERRED][2], strict=True):
            assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_gradients(bundles, folder, monkeypatch, show, accumulate):
    """After three steps, so that the adapter is not trivial; the gradient that waits has room of its own, or not."""
    model = models.build("llama", num_hidden_layers=2)
    objective, session, gradients = prepared(bundles[1], folder, monkeypatch, accumulate, lr=1e-3)
    for number in range(3):
        objective.step(session, number)
    rows = load_preferences(folder / "pairs.jsonl", Tokenizer(bundles[1]), LENGTH).rows
    pairs, exact = [rows[row] for row in rows_of_step(len(rows), 3, accumulate, 0)], {}
    for dtype in (torch.float64, torch.float32):
        policy = reference_for(bundles[1], session, model, dtype)
        exact[dtype] = policy.gradients_of(lambda of: true_loss(of, pairs)[0])
    with torch.no_grad():
        metrics = true_loss(reference_for(bundles[1], session, model, torch.float64), pairs)[1]
    step = objective.step(session, 3)
    assert step.result.loss == pytest.approx(exact[torch.float64][0], rel=1e-5)
    for name, value in step.metrics.items():
        assert value == pytest.approx(metrics[name], rel=1e-4, abs=1e-5), name
    assert step.result.tokens == sum(len(pair.prompt) - 1 + len(pair.chosen) + len(pair.rejected) for pair in pairs)
    errors = {key: relative_error(gradients[3][key], value) for key, value in exact[torch.float64][1].items()}
    torchs = {
        key: relative_error(exact[torch.float32][1][key], value) for key, value in exact[torch.float64][1].items()
    }
    show(f"orpo: worst gradient {max(errors.values()):.1e}, torch f32 {max(torchs.values()):.1e}")
    for key, error in errors.items():
        assert error <= max(2e-5, 2 * torchs[key]), key


def true_loss(policy, pairs):
    """Loss and metrics by TRL's own code."""
    sides = [(pair.prompt, pair.chosen) for pair in pairs], [(pair.prompt, pair.rejected) for pair in pairs]
    sequences = [np.concatenate(each).astype(np.int64)[None] for side in sides for each in side]
    length = max(each.size for each in sequences)
    logits = [policy.model(torch.from_numpy(each)).logits.double() for each in sequences]
    padded = [torch.nn.functional.pad(each, (0, 0, 0, length - each.shape[1])) for each in logits]
    ids = [tuple(each.tolist() for each in (pair.prompt, pair.chosen, pair.rejected)) for pair in pairs]
    return trl_losses.orpo_loss(ORPOOptions(beta=BETA), ids, torch.cat(padded))


def test_command(bundles, folder, tmp_path):
    data = folder / "pairs.jsonl"

    def run(name, steps, *more):
        return command("train", bundles[1], "--data", data, "--objective", "orpo", "--beta", BETA, "--lr", 1e-2,
                       "--eval", data, "--eval-every", 4, "--accumulate", 2, "--steps", steps, "--state",
                       tmp_path / name, "--adapter-out", tmp_path / f"{name}-adapter", *more)  # fmt: skip

    whole = run("whole", 8, "--log", tmp_path / "run.jsonl")
    assert whole.returncode == 0, whole.stderr
    assert "pairs: deferred: the rejected completion's gradient waits for the pair's coefficient in" in whole.stdout
    log = read_log(tmp_path / "run.jsonl")
    for entry in log:  # steps and evaluations
        parts = entry.metrics["nll_loss"] - BETA * entry.metrics["log_odds_ratio"]
        assert (entry.loss if isinstance(entry, Record) else entry.eval_loss) == pytest.approx(parts, rel=1e-5)
    steps = [entry for entry in log if isinstance(entry, Record)]
    assert steps[-1].metrics["nll_loss"] < steps[0].metrics["nll_loss"]
    assert steps[-1].metrics["log_odds_chosen"] > steps[0].metrics["log_odds_chosen"]
    first = run("parts", 3)
    assert first.returncode == 0, first.stderr
    rest = run("parts", 8, "--resume")
    assert rest.returncode == 0, rest.stderr
    weights = "adapter_model.safetensors"
    assert (tmp_path / "parts-adapter" / weights).read_bytes() == (tmp_path / "whole-adapter" / weights).read_bytes()
    card = (tmp_path / "whole-adapter" / "README.md").read_text()
    assert "--objective orpo" in card and f"--beta {BETA}" in card and "perplexity" not in card


def test_refusals(bundles, folder):
    def says(*options):
        return refusal("train", bundles[1], "--data", folder / "pairs.jsonl", "--objective", "orpo", *options)

    assert says("--beta", 0) == "mebp: beta is 0.0; give a finite number above 0"
    assert says("--reference", "base") == (
        "mebp: --reference is what some objectives compare with; give --objective dpo, grpo or ppo, too"
    )
    assert says("--loss-type", "sigmoid") == (
        "mebp: --loss-type is an option of --objective dpo and grpo, and this is orpo"
    )
