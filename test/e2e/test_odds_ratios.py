# SPDX-License-Identifier: Apache-2.0
"""ORPO: the same gradient in every way of running pairs, exact by TRL's own code, and resumed bitwise."""

import numpy as np
import pytest
import torch

from mebp.objectives.orpo import ORPOOptions
from mebp.training.log import Record, read_log
from mebp.verification.comparison import relative_error
from support import models, trl_losses
from support.commands import mebp as command
from support.commands import refusal
from support.pairs import BETA, check_ways_agree, make_bundles, make_source, pairs_of_step, prepare
from support.pipeline import reference_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_source(tmp_path_factory.mktemp("odds-ratios"))


@pytest.fixture(scope="module")
def bundles(folder):
    return make_bundles(folder)


def prepared(bundle, folder, monkeypatch, accumulate=2, **given):
    return prepare("orpo", bundle, folder, monkeypatch, accumulate, **given)


def test_ways_agree(bundles, folder, monkeypatch):
    """Two pairs a step: their sum, whichever gradient waits."""
    check_ways_agree(lambda batch: prepared(bundles[batch], folder, monkeypatch, accumulate=2))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_gradients(bundles, folder, monkeypatch, show, accumulate):
    """After three steps, so that the adapter is not trivial; the gradient that waits has room of its own, or not."""
    model = models.build("llama", num_hidden_layers=2)
    objective, session, gradients = prepared(bundles[1], folder, monkeypatch, accumulate, lr=1e-3)
    for number in range(3):
        objective.step(session, number)
    pairs, exact = pairs_of_step(3, folder, bundles[1], accumulate), {}
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
        "mebp: --reference is what some objectives compare with; give --objective dpo, grpo or ppo, or leave it out"
    )
    assert says("--loss-type", "sigmoid") == (
        "mebp: --loss-type is an option of --objective dpo and grpo, and this is orpo"
    )
