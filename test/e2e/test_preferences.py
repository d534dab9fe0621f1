# SPDX-License-Identifier: Apache-2.0
"""Preference pairs: the same gradient in every way of running them, exact, resumed bitwise, and refused in one line."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import mebp
from mebp.inspect import inspect
from mebp.objectives.pair_losses import LOSS_TYPES
from mebp.objectives.pairs import DPOOptions
from mebp.tokenizer import Tokenizer
from mebp.training.log import Record, read_log
from mebp.training.objectives import make_objective
from mebp.training.objectives.pair_ways import gradient_bytes
from mebp.training.options import TrainingOptions
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models, trl_losses
from support.commands import mebp as command
from support.commands import refusal
from support.pairs import BETA, LENGTH, PAIRS, check_ways_agree, make_bundles, make_source, pairs_of_step, prepare
from support.peaks import other_peaks
from support.pipeline import make_bundle, reference_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_source(tmp_path_factory.mktemp("preferences"))


@pytest.fixture(scope="module")
def bundles(folder):
    return make_bundles(folder)


def prepared(bundle, folder, monkeypatch, accumulate=1, **given):
    return prepare("dpo", bundle, folder, monkeypatch, accumulate, **given)


def test_ways_agree(bundles, folder, monkeypatch):
    """Two pairs a step: their sum, whichever gradient waits."""
    check_ways_agree(lambda batch: prepared(bundles[batch], folder, monkeypatch, accumulate=2))


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_gradients(bundles, folder, monkeypatch, show, loss_type):
    """After three steps, so that neither the adapter nor the margins are trivial; after long ones of the steeper losses
    little but rounding would be left."""
    model = models.build("llama", num_hidden_layers=2)
    more = {"label_smoothing": trl_losses.SMOOTHING[loss_type]} if loss_type in trl_losses.SMOOTHING else {}
    objective, session, gradients = prepared(
        bundles[1], folder, monkeypatch, accumulate=2, lr=1e-3, loss_type=loss_type, **more
    )
    for number in range(3):
        objective.step(session, number)
    pairs, exact = pairs_of_step(3, folder, bundles[1]), {}
    options = DPOOptions(loss_type, beta=BETA, **more)
    for dtype in (torch.float64, torch.float32):
        base = reference_for(bundles[1], mebp.Session(bundles[1]), model, dtype)
        policy = reference_for(bundles[1], session, model, dtype)
        exact[dtype] = policy.gradients_of(lambda of, base=base: true_loss(of, base, options, pairs))
        if dtype == torch.float64:
            parts = [
                norm(policy.gradients_of(lambda of, base=base, one=one: true_loss(of, base, options, pairs, one))[1])
                for one in range(2)
            ]
    step = objective.step(session, 3)
    assert step.result.loss == pytest.approx(exact[torch.float64][0], rel=1e-5)
    errors = {key: relative_error(gradients[3][key], value) for key, value in exact[torch.float64][1].items()}
    torchs = {
        key: relative_error(exact[torch.float32][1][key], value) for key, value in exact[torch.float64][1].items()
    }
    left = norm(exact[torch.float64][1]) / sum(parts)
    show(f"{loss_type}: worst gradient {max(errors.values()):.1e}, torch f32 {max(torchs.values()):.1e}; of chosen and "
         f"rejected together {left:.2f} is left of their norms")  # fmt: skip
    for key, error in errors.items():
        assert error <= max(2e-5, 2 * torchs[key]), key


def norm(gradients) -> float:
    return float(np.sqrt(sum(np.square(each, dtype=np.float64).sum() for each in gradients.values())))


def true_loss(policy, base, options, pairs, only=None):
    """By TRL's own code; only: as a function of the chosen completions (0) or of the rejected ones (1)."""
    sides = [[(pair.prompt, pair.chosen) for pair in pairs], [(pair.prompt, pair.rejected) for pair in pairs]]
    length = max(len(prompt) + len(completion) for side in sides for prompt, completion in side)
    ids = torch.zeros(2 * len(pairs), length, dtype=torch.int64)
    mask, logits, reference = torch.zeros_like(ids), [], []
    for row, (prompt, completion) in enumerate(sides[0] + sides[1]):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.from_numpy(np.concatenate([prompt, completion]).astype(np.int64))
        mask[row, len(prompt) : end] = 1
        written = padded(policy.model(ids[row : row + 1, :end]).logits, length)
        logits.append(written if only in (None, row // len(pairs)) else written.detach())
        with torch.no_grad():
            reference.append(padded(base.model(ids[row : row + 1, :end]).logits, length))
    return trl_losses.dpo_loss(options, torch.cat(logits), torch.cat(reference), ids, mask)[0]


def padded(logits, length):
    return torch.nn.functional.pad(logits.double(), (0, 0, 0, length - logits.shape[1]))


def test_another_reference_than_the_adapter_that_is_trained_is_said(bundles, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    session = mebp.Session(bundles[1])
    randomise_adapter(session, seed=2)
    session.save_adapter(tmp_path / "adapter")
    run = command("train", bundles[1], "--data", folder / "pairs.jsonl", "--objective", "dpo", "--steps", 1,
                  "--adapter", tmp_path / "adapter", "--reference", "base")  # fmt: skip
    assert run.returncode == 0, run.stderr
    note = f"--reference base: {tmp_path / 'adapter'} is trained on, and compared with the model without it"
    assert note in run.stdout.splitlines()


def test_reference_is_kept(bundles, folder, monkeypatch, tmp_path):
    """What was computed once is read, by who has the same bundle, reference and data."""
    _, session, _ = prepared(bundles[1], folder, monkeypatch)
    calls = []
    logprobs = mebp.Session.logprobs
    monkeypatch.setattr(mebp.Session, "logprobs", lambda self, *args, **named: (
        calls.append(named), logprobs(self, *args, **named))[1])  # fmt: skip
    file = tmp_path / "reference.bin"
    asked = TrainingOptions(bundles[1], folder / "pairs.jsonl", objective="dpo", reference=str(file))
    for expected in (2 * len(PAIRS), 0):
        objective = make_objective(asked, Tokenizer(bundles[1]), LENGTH)
        list(objective.begin(session))
        calls.clear()
        for number in range(len(PAIRS)):
            objective.step(session, number)
        assert len(calls) == expected
    other = folder / "other.jsonl"
    other.write_text(json.dumps(PAIRS[0]) + "\n")
    objective = make_objective(replace(asked, data=other), Tokenizer(bundles[1]), LENGTH)
    with pytest.raises(mebp.Error, match="its log-probabilities are of another data; delete it"):
        list(objective.begin(session))
    session.save_adapter(tmp_path / "adapter")
    for changed, what in (({"adapter": tmp_path / "adapter"}, "adapter"), ({"bundle": bundles[2]}, "bundle")):
        with pytest.raises(mebp.Error, match=f"its log-probabilities are of another {what}; delete it"):
            list(make_objective(replace(asked, **changed), Tokenizer(bundles[1]), LENGTH).begin(session))
    file.write_bytes(b"something else")
    objective = make_objective(asked, Tokenizer(bundles[1]), LENGTH)
    with pytest.raises(mebp.Error, match="reference.bin: "):
        list(objective.begin(session))


def test_command(bundles, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    data = folder / "pairs.jsonl"

    def run(name, steps, *more):
        return command("train", bundles[1], "--data", data, "--objective", "dpo", "--beta", BETA, "--lr", 1e-2,
                       "--eval", data, "--eval-every", 4, "--accumulate", 2, "--steps", steps, "--state",
                       tmp_path / name, "--adapter-out", tmp_path / f"{name}-adapter", *more)  # fmt: skip

    whole = run("whole", 8, "--log", tmp_path / "run.jsonl")
    assert whole.returncode == 0, whole.stderr
    assert "pairs: deferred" in whole.stdout and "rewards/accuracies" in whole.stdout
    log = read_log(tmp_path / "run.jsonl")
    assert log[0].loss == pytest.approx(np.log(2), rel=1e-5) and log[-1].metrics["rewards/accuracies"] == 1
    first = run("parts", 3)
    assert first.returncode == 0, first.stderr
    rest = run("parts", 8, "--resume")
    assert rest.returncode == 0, rest.stderr
    weights = "adapter_model.safetensors"
    assert (tmp_path / "parts-adapter" / weights).read_bytes() == (tmp_path / "whole-adapter" / weights).read_bytes()
    table = [entry for entry in read_log(tmp_path / "parts-adapter" / "training.csv") if isinstance(entry, Record)]
    steps = [entry for entry in log if isinstance(entry, Record)]
    assert [(entry.loss, entry.metrics) for entry in table] == [(entry.loss, entry.metrics) for entry in steps]
    card = (tmp_path / "whole-adapter" / "README.md").read_text()
    assert "--objective dpo" in card and f"--beta {BETA}" in card and "perplexity" not in card


def test_a_budget_without_room_for_a_gradient(folder, tmp_path, monkeypatch):
    """Then the chosen completion is scored first, within the budget."""
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "free").mkdir()
    free = make_bundle(folder / "source", tmp_path / "free", seq_len=LENGTH)
    waiting = gradient_bytes(inspect(free))
    budget = other_peaks(free)["adamw, accumulated"] + waiting // 2
    bundle = make_bundle(folder / "source", tmp_path, seq_len=LENGTH, memory_budget=f"{budget}B", spill="none",
                         objective="dpo")  # fmt: skip
    run = command("train", bundle, "--data", folder / "pairs.jsonl", "--objective", "dpo", "--accumulate", 2,
                  "--steps", 1, "--adapter-out", tmp_path / "adapter")  # fmt: skip
    assert run.returncode == 0, run.stderr
    why = f"the budget has no {waiting / 1e6:.1f} MB for a gradient that waits"
    assert f"pairs: scored first: {why}, so the chosen completion runs forward once more" in run.stdout


def test_refusals(bundles, folder, tmp_path):
    data = folder / "pairs.jsonl"

    def says(*options):
        return refusal("train", bundles[1], "--data", data, *options)

    assert says("--objective", "rlhf") == "mebp: --objective is 'rlhf'; choose sft, dpo, grpo, ppo or orpo"
    assert says("--beta", 1) == "mebp: --beta is an option of --objective dpo, grpo and orpo, and this is sft"
    assert says("--objective", "dpo", "--beta", -1) == "mebp: beta is -1.0; give a finite number above 0"
    assert says("--objective", "dpo", "--loss-type", "best").startswith(
        "mebp: loss_type is 'best'; choose sigmoid, hin"
    )
    assert says("--reference", "base").startswith(
        "mebp: --reference is what some objectives compare with; give --objective dpo, grpo or ppo, or leave it out"
    )
    assert says("--objective", "dpo", "--loss-type", "sft", "--reference", "base") == (
        "mebp: --reference is compared with by other losses than sft; choose one, or leave it out"
    )
    assert says("--objective", "grpo", "--reference", "base") == (
        "mebp: --reference is compared with where --beta is above 0; give one, or leave it out"
    )
    for objective in (["grpo", "--beta", 0.1], ["ppo"]):
        assert says("--objective", *objective, "--reference", tmp_path / "none") == (
            f"mebp: --reference {tmp_path}/none: is not a folder, and a file keeps log-probabilities of pairs "
            "alone; give base, initial or a PEFT folder"
        )
    assert says("--objective", "dpo", "--reference", tmp_path).startswith(f"mebp: {tmp_path}/adapter_config.json: ")
