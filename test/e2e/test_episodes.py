# SPDX-License-Identifier: Apache-2.0
"""PPO with a value head: TRL 1.12's formulas drive the same gradients in float64, and a run is resumed bitwise."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import mebp
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer
from mebp.training.log import Record, read_log
from mebp.training.objectives import make_objective
from mebp.training.options import TrainingOptions
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models, ppo_reference
from support.commands import mebp as command
from support.commands import refusal
from support.pipeline import make_bundle, reference_for
from support.textmodel import make_tokenizer

LENGTH, ROOM, TEMPERATURE = 40, 12, 0.8
PROMPTS = ["The lamp", "A wick", "Oil", "Who trims it"]
REWARD = """
def high(completion_ids, **columns):
    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]

def none(completions, **columns):
    return [None for _ in completions]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("episodes")
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
    (folder / "rewards.py").write_text(REWARD)
    return folder


@pytest.fixture(scope="module")
def bundle(folder):
    return make_bundle(folder / "source", folder, seq_len=LENGTH, generate_len=LENGTH, value_head=True)


def prepared(bundle, folder, rollouts=None, **options):
    asked = TrainingOptions(bundle, rollouts or folder / "prompts.jsonl", objective="ppo", accumulate=4,
                            rollouts=rollouts, reward=[f"{folder / 'rewards.py'}:high"],
                            objective_options={"temperature": TEMPERATURE, "max_completion": ROOM,
                                               **options})  # fmt: skip
    objective = make_objective(asked, Tokenizer(bundle), LENGTH)
    session = mebp.Session(bundle, optimizer="sgd", lr=0.02, **objective.session_options())
    for seed, adapter in enumerate(adapters_of(session), start=1):
        with adapter():
            randomise_adapter(session, seed)
    list(objective.begin(session))
    return objective, session


def adapters_of(session) -> list:
    """What an update trains, in its order."""
    return [session.by_value_adapter, nullcontext] if session.has_value_adapter else [nullcontext]


def padded(values: list[np.ndarray], longest: int) -> torch.Tensor:
    return torch.stack([torch.from_numpy(np.pad(np.float64(each), (0, longest - len(each)))) for each in values])


def scored(policy, value, each) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities [tokens], and values [length], in torch."""
    ids = torch.from_numpy(each.ids.astype(np.int64))
    logits, values = policy.logits_and_values(ids)
    if value is not policy:
        _, values = value.logits_and_values(ids)
    logps = (logits[:, :-1].double() / TEMPERATURE).log_softmax(-1).gather(-1, ids[:, 1:, None])[0, :, 0]
    first = len(each.prompt) - 1
    return logps[first : first + each.tokens], values[0, first : first + each.length].double()


@pytest.mark.parametrize(
    "options",
    [
        {"kl_coef": 0.2, "gamma": 0.9},
        {"kl_estimator": "k3", "whiten_rewards": True, "missing_eos_penalty": 1.0, "vf_coef": 1.0},
        {"num_mini_batches": 2, "cliprange": 0.001, "cliprange_value": 0.001, "vf_coef": 0.5},
        {"value_model": "own", "kl_coef": 0.2, "gamma": 0.9},
        {"value_model": "own", "num_mini_batches": 2, "cliprange": 0.001, "cliprange_value": 0.001},
    ],
    ids=["k1", "k3, whitened", "two batches, clipped", "own", "own, two batches, clipped"],
)
def test_gradients(bundle, folder, monkeypatch, show, options):
    """After three updates of a rollout, where ratios are not 1 and values have moved, against TRL's own formulas on a
    padded batch. Completions end, are cut off, and are as long as they may be."""
    random = np.random.default_rng(3)
    written = [random.integers(3, 200, length).tolist() for length in (4, 7, ROOM, 5)]
    written[0][-1] = next(iter(Tokenizer(bundle).stop_tokens))
    lines = [{"prompt": text, "completions": [{"ids": ids}]} for text, ids in zip(PROMPTS, written, strict=True)]
    (folder / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    objective, session = prepared(bundle, folder, folder / "rollouts.jsonl", **options)

    def references(dtype) -> list:
        """Of the policy and of the value, which may be one."""
        found = []
        for adapter in reversed(adapters_of(session)):
            with adapter():
                found.append(reference_for(bundle, session, models.build("llama", num_hidden_layers=2), dtype))
        return [found[0], found[-1]]

    base = references(torch.float64)
    for number in range(3):
        objective.step(session, number)
    episodes = objective._current
    assert sorted(each.length for each in episodes) == [5, 6, 8, ROOM]
    stops = Tokenizer(bundle).stop_tokens
    ended = torch.tensor([int(each.completion[each.tokens - 1]) in stops for each in episodes])
    assert sum(ended) == 1

    # What all updates have in common, by TRL's formulas from the log-probabilities and values before the first.
    given = objective._ppo.options
    with torch.no_grad():
        begun = [scored(*base, each) for each in episodes]
    for each, (logps, values) in zip(episodes, begun, strict=True):
        assert relative_error(each.old, logps.numpy()) <= 2e-6
        assert relative_error(each.values, values.numpy()) <= 2e-6
    lengths = torch.tensor([each.tokens for each in episodes])
    rewards = torch.tensor([
        sum(each.completion[: each.tokens].tolist()) / (300 * each.tokens) for each in episodes
    ]).double()  # fmt: skip
    old, reference, values = (
        padded([getattr(each, name)[: each.length] for each in episodes], ROOM)
        for name in ("old", "reference", "values")
    )
    reference = reference * (torch.arange(ROOM) < lengths[:, None])
    advantages, returns = ppo_reference.targets(given, old, reference, values, rewards, lengths, ended)

    batch = objective._batch(0, 3)
    rows = [next(row for row, other in enumerate(episodes) if other is each) for each in batch]

    def loss(policy, value):
        found = [scored(policy, value, each) for each in batch]
        pads = [
            [torch.nn.functional.pad(each, (0, ROOM - len(each))) for each in part] for part in zip(*found, strict=True)
        ]
        logps, now = (torch.stack(each) for each in pads)
        return ppo_reference.loss(
            given, logps, old[rows], now, values[rows], advantages[rows], returns[rows], lengths[rows]
        )

    def gradients(dtype) -> tuple[float, list[dict]]:
        """The loss, and gradients of each adapter in the order of an update."""
        policy, value = references(dtype)
        total, of_policy = policy.gradients_of(lambda one: loss(one, one if value is policy else value))
        if value is policy:
            return total, [of_policy]
        return total, [value.gradients_of(lambda one: loss(policy, one))[1], of_policy]

    (total, exact), (_, torchs) = gradients(torch.float64), gradients(torch.float32)
    found = []
    apply = session.apply
    monkeypatch.setattr(session, "apply", lambda: (found.append(session.gradients()), apply())[1])
    step = objective.step(session, 3)
    assert step.result.loss == pytest.approx(total, rel=1e-4, abs=2e-6)
    assert step.result.tokens == sum(each.tokens for each in batch)
    for ours, wanted, by_torch in zip(found, exact, torchs, strict=True):
        errors = {key: relative_error(ours[key], value) for key, value in wanted.items()}
        of_torch = {key: relative_error(by_torch[key], value) for key, value in wanted.items()}
        show(f"worst gradient {max(errors.values()):.1e}, torch f32 {max(of_torch.values()):.1e}")
        for key, error in errors.items():
            assert error <= max(2e-5, 2 * of_torch[key]), key
    assert ours["value_head.weight"].any() != session.has_value_adapter  # the policy's own head is of no use
    assert set(step.metrics) >= set(objective.own_metrics)
    if given.cliprange < 0.01:
        assert step.metrics["policy/clipfrac_avg"] > 0 and step.metrics["val/clipfrac_avg"] > 0


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_the_policy_and_the_weight_of_the_value(bundle, folder, kind):
    """Of an adapter of its own, the value's loss moves nothing of the policy's: not a bit, after four updates."""
    trained = []
    for weight in (0.1, 10.0):
        objective, session = prepared(bundle, folder, value_model=kind, vf_coef=weight)
        for number in range(4):
            objective.step(session, number)
        policy = session.trainables()
        with adapters_of(session)[0]():
            trained.append((policy, session.trainables()))
    for one, other, is_alike in zip(*trained, (kind == "own", False), strict=True):
        equal = {key: np.array_equal(one[key], other[key]) for key in one if ".layers.0." in key}
        assert set(equal.values()) == {is_alike}


def test_ratios_beyond_all_measure_are_counted(bundle, folder):
    objective, session = prepared(bundle, folder)
    assert objective.step(session, 0).metrics["ratio_overflows"] == 0
    objective._current[0].old -= 30
    assert objective.step(session, 1).metrics["ratio_overflows"] == objective._current[0].tokens


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_values_are_learned(bundle, folder, kind):
    """The scores are alike, so what is expected comes close to them."""
    objective, session = prepared(
        bundle, folder, value_model=kind, kl_coef=0.0, vf_coef=1.0, cliprange_value=10.0, gamma=1.0
    )
    session.set_learning_rate(0.05)
    losses = [objective.step(session, number).metrics["loss/value_avg"] for number in range(8)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_command(bundle, folder, tmp_path, kind):
    def run(name, steps, *more, kind=kind):
        return command("train", bundle, "--data", folder / "prompts.jsonl", "--objective", "ppo", "--reward",
                       f"{folder / 'rewards.py'}:high", "--max-completion", ROOM, "--lr", 2e-2,
                       "--num-ppo-epochs", 2, "--num-mini-batches", 2, "--accumulate", 4, "--steps", steps,
                       "--value-model", kind,
                       "--state", tmp_path / name, "--adapter-out", tmp_path / f"{name}-adapter",
                       *more)  # fmt: skip

    whole = run("whole", 6, "--threads", 1, "--log", tmp_path / "run.jsonl")
    assert whole.returncode == 0, whole.stderr
    first = run("parts", 3, "--threads", 2)  # within a rollout's updates
    assert first.returncode == 0, first.stderr
    rest = run("parts", 6, "--resume")
    assert rest.returncode == 0, rest.stderr
    files = ["adapter_model.safetensors", "value_head.safetensors", *["value_adapter.safetensors"] * (kind == "own")]
    for file in files:
        assert (tmp_path / "parts-adapter" / file).read_bytes() == (tmp_path / "whole-adapter" / file).read_bytes()
    assert len([*(tmp_path / "whole-adapter").glob("*.safetensors")]) == len(files)
    steps = [entry for entry in read_log(tmp_path / "run.jsonl") if isinstance(entry, Record)]
    assert {"objective/kl", "objective/scores", "loss/value_avg", "val/ratio"} <= steps[0].metrics.keys()
    assert steps[0].metrics["objective/scores"] == steps[3].metrics["objective/scores"]
    assert steps[0].metrics["val/ratio"] == pytest.approx(1, abs=1e-5)
    if kind == "own":
        refused = run("parts", 8, "--resume", kind="shared")
        assert refused.returncode == 2 and "has tensors that this session does not keep" in refused.stderr
        more = run("more", 1, "--adapter", tmp_path / "whole-adapter")  # both go on
        assert more.returncode == 0, more.stderr
        for file in files:  # AdamW's first step moves a number by the rate at most
            now, before = (load_file(tmp_path / name / file) for name in ("more-adapter", "whole-adapter"))
            moved = max(np.abs(now[key] - before[key]).max() for key in now)
            assert 0 < moved <= 0.0201 < max(np.abs(now[key]).max() for key in now if "lora_A" not in key)
    # An adapter of PPO is trained on by a bundle without a value head.
    assert command("generate", bundle, "--adapter", tmp_path / "whole-adapter", "--prompt", "Oil").returncode == 0


def test_a_budget_without_room_for_two_adapters(folder, tmp_path):
    """What fits with a shared head does not with two adapters."""
    options = {"seq_len": LENGTH, "generate_len": LENGTH, "value_head": True, "objective": "ppo", "spill": "none"}
    (tmp_path / "free").mkdir()
    peak = inspect(make_bundle(folder / "source", tmp_path / "free", **options))["plan"]["peak_bytes"]
    bundle = make_bundle(folder / "source", tmp_path, memory_budget=f"{peak}B", **options)
    asked = {"reward": f"{folder / 'rewards.py'}:high", "max_completion": 4, "steps": 1, "progress": False}
    with pytest.raises(mebp.Error, match="was compiled for a budget of .* --value-model own.* --value-adapter"):
        mebp.train(bundle, folder / "prompts.jsonl", objective="ppo", value_model="own", **asked)
    assert mebp.train(bundle, folder / "prompts.jsonl", objective="ppo", **asked).session.steps == 1


def test_handed_in(bundle, folder, tmp_path):
    file = tmp_path / "rollouts.jsonl"
    completions = [{"ids": [5, 6, 7], "reward": 1.0}]
    file.write_text(json.dumps({"prompt": "Oil", "completions": completions}) + "\n")

    def run(*more):
        return command("train", bundle, "--objective", "ppo", "--rollouts", file, "--steps", 2, *more)

    ran = run()
    assert ran.returncode == 0, ran.stderr
    assert "1 prompt, 1 completion of each, handed in" in ran.stdout
    for what, given in (("an advantage", {"advantage": 1.0}), ("a mask", {"mask": [1, 1, 0]})):
        file.write_text(json.dumps({"prompt": "Oil", "completions": [completions[0] | given]}) + "\n")
        ran = run()
        assert ran.returncode == 2
        assert ran.stderr == (f"mebp: {file}:1, completion 1: has {what}, which --objective ppo does not take; leave "
                              "it out, or choose grpo\n")  # fmt: skip


def test_refusals(bundle, folder, tmp_path):
    def says(*options: object, of=bundle) -> str:
        return refusal("train", of, "--data", folder / "prompts.jsonl", "--objective", "ppo", *options)

    reward = "--reward", f"{folder / 'rewards.py'}:high"
    assert says() == "mebp: --objective ppo needs a reward; give --reward MODULE:FUNCTION, or a command"
    assert says(*reward, "--value-model", "adapter") == "mebp: value_model is 'adapter'; choose shared or own"
    assert says(*reward, "--epsilon", 0.1) == ("mebp: --epsilon is an option of --objective grpo, and this is ppo")
    assert says(*reward, "--num-mini-batches", 3, "--accumulate", 2) == (
        "mebp: --num-mini-batches is 3, and a rollout may have 2 completions; give at most as many, or a larger "
        "--accumulate"
    )
    none = "--reward", f"{folder / 'rewards.py'}:none"
    line = says(*none, "--max-completion", 2, "--steps", 1)
    assert "completion 1: has no reward, and ppo needs one of each completion" in line
    plain = make_bundle(folder / "source", tmp_path, seq_len=LENGTH)
    assert says(*reward, of=plain) == (
        f"mebp: --objective ppo needs a value head, which {plain} was compiled without; compile it with --value-head"
    )
