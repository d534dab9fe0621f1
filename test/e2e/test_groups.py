# SPDX-License-Identifier: Apache-2.0
"""Rewards of sampled completions: the same text on any number of threads, exact gradients, resumed bitwise."""

import fcntl
import json
import shlex
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import mebp
from mebp.data.prompts import load_prompts
from mebp.rollouts import RolloutOptions, Writer
from mebp.tokenizer import Tokenizer
from mebp.training.log import Record, read_log
from mebp.training.objectives import make_objective
from mebp.training.options import TrainingOptions
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import TIMEOUT, printed, refusal, running
from support.commands import mebp as command
from support.pipeline import make_bundle, reference_for
from support.textmodel import make_tokenizer

LENGTH, ROOM, GROUP, TEMPERATURE = 40, 12, 4, 0.8
PROMPTS = ["The lamp", "A wick", "Oil", "Who trims it"]
REWARD = """
def high(completion_ids, **columns):
    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]

def two(completions, **columns):
    return [1.0, 2.0]

def same(completions, **columns):
    return [1.0 for _ in completions]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
    (folder / "rewards.py").write_text(REWARD)
    return folder


@pytest.fixture(scope="module")
def bundle(folder):
    return make_bundle(folder / "source", folder, seq_len=LENGTH, batch=2, generate_len=LENGTH)


@pytest.fixture(scope="module")
def bonus(folder):
    (folder / "bonus").mkdir()
    made = {"seq_len": LENGTH, "batch": 2, "generate_len": LENGTH}
    return make_bundle(folder / "source", folder / "bonus", **made, entropy_bonus=True)


def rolled_out(bundle, folder, **options) -> list:
    session = mebp.Session(bundle, **options)
    randomise_adapter(session, seed=1)
    tokenizer = Tokenizer(bundle)
    writer = Writer(session, tokenizer, RolloutOptions(GROUP, TEMPERATURE, ROOM))
    prompts = load_prompts(folder / "prompts.jsonl", tokenizer, LENGTH).rows
    return [each for index, prompt in enumerate(prompts) for each in writer.write(prompt, 5, 0, index).completions]


def test_texts_depend_on_nothing_else(bundle, folder):
    """One thread or two, two side by side or one after the other."""
    one, two = (rolled_out(bundle, folder, threads=threads) for threads in (1, 2))
    assert [each.ids.tolist() for each in one] == [each.ids.tolist() for each in two]
    assert len({tuple(each.ids) for each in one}) > GROUP
    (folder / "single").mkdir(exist_ok=True)
    single = make_bundle(folder / "source", folder / "single", seq_len=LENGTH, batch=1, generate_len=LENGTH)
    assert [each.ids.tolist() for each in rolled_out(single, folder)] == [each.ids.tolist() for each in one]


def test_log_probabilities_are_those_of_training(bundle, folder):
    session = mebp.Session(bundle, accumulate=True)
    randomise_adapter(session, seed=1)
    prompt = load_prompts(folder / "prompts.jsonl", Tokenizer(bundle), LENGTH).rows[0]
    writer = Writer(session, Tokenizer(bundle), RolloutOptions(GROUP, TEMPERATURE, ROOM))
    for each in writer.write(prompt, 5, 0, 0).completions:
        ids = np.concatenate([prompt.ids, each.ids])[None]
        found = session.logprobs(ids, temperature=TEMPERATURE)[0, -len(each.ids) :]
        assert np.allclose(found, each.logps, atol=1e-5)


def test_ctrl_c_does_not_wait_for_what_is_written(bundle, folder, monkeypatch):
    """The step before is the last one, whose state has it write the same again."""
    asked, presses = [], []
    prompts, options = folder / "prompts.jsonl", {"group": GROUP, "max_completion": ROOM, "steps": 3, "progress": False}
    written = Writer.write

    def write(self, prompt, seed, number, index):
        if number == 1:
            presses.append(signal.raise_signal(signal.SIGINT))
            asked.append(self._stop)
        return written(self, prompt, seed, number, index)

    monkeypatch.setattr(Writer, "write", write)
    with pytest.raises(KeyboardInterrupt, match="after step 1"):
        mebp.train(bundle, prompts, objective="grpo", reward=[f"{folder / 'rewards.py'}:high"], **options)
    assert len(presses) == 1 and asked[0]()


@pytest.mark.parametrize(
    "options",
    [
        {"loss_type": "grpo", "beta": 0.1, "use_bias_correction_kl": False},
        {"loss_type": "dapo", "beta": 0.04, "epsilon": 0.02},
        {"loss_type": "dr_grpo", "importance_sampling_level": "sequence"},
        {"loss_type": "grpo", "entropy_coef": 0.5},
        {"loss_type": "dapo", "entropy_coef": 0.5, "top_entropy_quantile": 0.3},
    ],
    ids=["grpo with a reference", "dapo, clipped", "of sequences", "entropy bonus", "of the highest entropies"],
)
def test_gradients(bundle, bonus, folder, monkeypatch, show, options):
    """After three updates of a rollout, where ratios are not 1."""
    bundle = bonus if "entropy_coef" in options else bundle
    asked = TrainingOptions(bundle, folder / "prompts.jsonl", objective="grpo", accumulate=2,
                            reward=[f"{folder / 'rewards.py'}:high"],
                            objective_options={"group": GROUP, "temperature": TEMPERATURE, "max_completion": ROOM,
                                               "num_iterations": 4, **options})  # fmt: skip
    objective = make_objective(asked, Tokenizer(bundle), LENGTH)
    session = mebp.Session(bundle, optimizer="sgd", lr=0.05, **objective.session_options())
    randomise_adapter(session, seed=1)
    list(objective.begin(session))
    for number in range(3):
        objective.step(session, number)
    model = models.build("llama", num_hidden_layers=2)
    exact, torchs = (
        reference_for(bundle, session, model, dtype).gradients_of(
            lambda of: true_loss(of, objective._current, objective._grpo.options)
        )
        for dtype in (torch.float64, torch.float32)
    )
    found = {}
    apply = session.apply
    monkeypatch.setattr(session, "apply", lambda: (found.update(session.gradients()), apply())[1])
    step = objective.step(session, 3)
    assert len({each.advantage for each in objective._current}) == 2 * GROUP
    assert step.result.loss == pytest.approx(exact[0], abs=2e-6)
    errors = {key: relative_error(found[key], value) for key, value in exact[1].items()}
    of_torch = {key: relative_error(torchs[1][key], value) for key, value in exact[1].items()}
    show(f"{options['loss_type']}: worst gradient {max(errors.values()):.1e}, torch f32 {max(of_torch.values()):.1e}")
    for key, error in errors.items():
        assert error <= max(2e-5, 2 * of_torch[key]), key


def true_loss(of, sequences, options):
    """By formulas of its own."""
    count = len(sequences)
    tokens = sum(len(each.completion) for each in sequences)
    every = []
    for each in sequences:
        ids = torch.from_numpy(each.ids.astype(np.int64))
        logits = of.model(ids).logits[0, -len(each.completion) - 1 : -1].double() / TEMPERATURE
        every.append((logits.log_softmax(-1), torch.distributions.Categorical(logits=logits).entropy()))
    entropies = torch.cat([entropy for _, entropy in every])
    threshold = torch.quantile(entropies.detach(), 1 - options.top_entropy_quantile)
    total = -options.entropy_coef * entropies[entropies >= threshold].mean()
    for each, (all_logps, entropy) in zip(sequences, every, strict=True):
        logps = all_logps.gather(-1, torch.from_numpy(each.completion.astype(np.int64))[:, None])[:, 0]
        log_ratio = logps - torch.from_numpy(each.old).double()
        if options.importance_sampling_level == "sequence":
            log_ratio = log_ratio.mean() + 0 * log_ratio
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - options.epsilon, 1 + options.epsilon)
        losses = -torch.minimum(ratio * each.advantage, clipped * each.advantage) * (entropy >= threshold)
        if options.beta:
            behind = torch.from_numpy(each.reference).double() - logps
            kl = behind.exp() - behind - 1
            losses = losses + options.beta * kl * (ratio if options.use_bias_correction_kl else 1)
        by = {"grpo": len(losses) * count, "dapo": tokens, "dr_grpo": count * ROOM}[options.loss_type]
        total = total + losses.sum() / by
    return total


def test_ratios_beyond_all_measure_are_counted(bundle, folder):
    options = {"group": 2, "max_completion": 4, "num_iterations": 2, "beta": 0.1}
    asked = TrainingOptions(bundle, folder / "prompts.jsonl", objective="grpo",
                            reward=[f"{folder / 'rewards.py'}:high"], objective_options=options)  # fmt: skip
    objective = make_objective(asked, Tokenizer(bundle), LENGTH)
    session = mebp.Session(bundle, lr=0.0, **objective.session_options())
    list(objective.begin(session))
    step = objective.step(session, 0)
    assert step.metrics["ratio_overflows"] == 0 and step.metrics["kl"] == 0  # the base model is the reference
    objective._current[0].old -= 30
    assert objective.step(session, 1).metrics["ratio_overflows"] == len(objective._current[0].completion)


def test_groups_with_equal_rewards_are_counted(bundle, folder):
    asked = TrainingOptions(bundle, folder / "prompts.jsonl", objective="grpo",
                            reward=[f"{folder / 'rewards.py'}:same"],
                            objective_options={"group": 2, "max_completion": 4})  # fmt: skip
    objective = make_objective(asked, Tokenizer(bundle), LENGTH)
    session = mebp.Session(bundle, **objective.session_options())
    list(objective.begin(session))
    assert objective.step(session, 0).metrics["frac_reward_zero_std"] == 1


def test_completions_without_a_reward_are_counted(bundle, folder, tmp_path):
    (tmp_path / "rewards.py").write_text(
        "def some(completions, **columns): return [None, *(float(len(one)) for one in completions[1:])]"
    )
    asked = TrainingOptions(bundle, folder / "prompts.jsonl", objective="grpo",
                            reward=[f"{tmp_path / 'rewards.py'}:some"],
                            objective_options={"group": 2, "max_completion": 4})  # fmt: skip
    objective = make_objective(asked, Tokenizer(bundle), LENGTH)
    session = mebp.Session(bundle, **objective.session_options())
    list(objective.begin(session))
    assert objective.step(session, 0).metrics["completions/unscored"] == 1
    assert objective._current[0].advantage == 0


def test_command(bundle, folder, tmp_path):
    def run(name, steps, *more):
        return command("train", bundle, "--data", folder / "prompts.jsonl", "--objective", "grpo", "--reward",
                       f"{folder / 'rewards.py'}:high", "--group", GROUP, "--max-completion", ROOM, "--lr", 2e-2,
                       "--num-iterations", 2, "--accumulate", 2, "--steps", steps, "--state", tmp_path / name,
                       "--adapter-out", tmp_path / f"{name}-adapter", *more)  # fmt: skip

    whole = run("whole", 6, "--threads", 1, "--log", tmp_path / "run.jsonl")
    assert whole.returncode == 0, whole.stderr
    first = run("parts", 3, "--threads", 2)  # within a rollout's updates
    assert first.returncode == 0, first.stderr
    rest = run("parts", 6, "--resume")
    assert rest.returncode == 0, rest.stderr
    weights = "adapter_model.safetensors"
    assert (tmp_path / "parts-adapter" / weights).read_bytes() == (tmp_path / "whole-adapter" / weights).read_bytes()
    steps = [entry for entry in read_log(tmp_path / "run.jsonl") if isinstance(entry, Record)]
    assert {"reward", "reward_std", "rewards/high/mean", "completions/mean_length"} <= steps[0].metrics.keys()
    of_rollout = "reward", "reward_std", "rewards/high/mean", "completions/mean_length"
    assert all(steps[0].metrics[name] == steps[1].metrics[name] for name in of_rollout)
    assert {"entropy", "clip_ratio/region_mean"} <= steps[1].metrics.keys()


def test_ctrl_c_ends_a_reward_command_before_its_step(bundle, folder, tmp_path):
    """And the run goes on with the same bits."""
    (tmp_path / "score.py").write_text(
        "import fcntl, pathlib, sys, time\n"
        "here, rows = pathlib.Path(__file__).parent, list(sys.stdin)\n"
        "if (here / 'answered').exists():\n"  # the second call waits for ever
        "    held = open(here / 'held', 'w')\n"
        "    fcntl.flock(held, fcntl.LOCK_EX)\n"
        "    (here / 'waits').touch()\n"
        "    time.sleep(1000)\n"
        "(here / 'answered').touch()\n"
        "for number, _ in enumerate(rows): print(number)\n"
    )
    options = {"objective": "grpo", "reward": shlex.join([sys.executable, str(tmp_path / "score.py")]), "group": 2,
               "max_completion": 4, "steps": 2, "lr": 2e-2, "reward_timeout": 0}  # fmt: skip
    given = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    outputs = ["--state", tmp_path / "state", "--adapter-out", tmp_path / "adapter"]
    data = folder / "prompts.jsonl"
    with running(
        "train", bundle, "--data", data, *given, *outputs, until=lambda _: (tmp_path / "waits").exists()
    ) as run:
        run.send_signal(signal.SIGINT)
        assert run.wait(TIMEOUT) == 130
        assert "stopped after step 1 of 2; continue with --resume" in printed(run.stdout) and not printed(run.stderr)
    with (tmp_path / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # which it has no more

    def train(folder: Path, **more: object) -> bytes:
        (tmp_path / "answered").unlink(missing_ok=True)
        mebp.train(bundle, data, **options, adapter_out=folder, **more, progress=False)
        return (folder / "adapter_model.safetensors").read_bytes()

    (tmp_path / "score.py").write_text("import sys\nfor number, _ in enumerate(sys.stdin): print(number)\n")
    assert train(tmp_path / "adapter", state=tmp_path / "state", resume=True) == train(tmp_path / "whole")


def test_rollouts(bundle, folder, tmp_path):
    """What is written to a file trains as what was written within the run."""
    file = tmp_path / "rollouts.jsonl"
    made = command("rollout", bundle, "--data", folder / "prompts.jsonl", "--group", GROUP, "--max-completion", ROOM,
                   "--seed", 3, "-o", file)  # fmt: skip
    assert made.returncode == 0, made.stderr
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["prompt"] for line in lines] == PROMPTS
    assert all(len(line["completions"]) == GROUP for line in lines)
    again = tmp_path / "again.jsonl"
    command("rollout", bundle, "--data", folder / "prompts.jsonl", "--group", GROUP, "--max-completion", ROOM,
            "--seed", 3, "--threads", 1, "-o", again)  # fmt: skip
    assert again.read_bytes() == file.read_bytes()
    run = command("train", bundle, "--rollouts", file, "--objective", "grpo", "--reward",
                  f"{folder / 'rewards.py'}:high", "--steps", 2, "--adapter-out", tmp_path / "adapter")  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert f"4 prompts, {GROUP} completions of each, handed in" in run.stdout


def test_refusals(bundle, folder):
    def says(*options: object, data: Path = folder / "prompts.jsonl") -> str:
        return refusal("train", bundle, "--data", data, "--objective", "grpo", *options)

    reward = "--reward", f"{folder / 'rewards.py'}:high"
    assert says() == "mebp: --objective grpo needs a reward; give --reward MODULE:FUNCTION, or a command"
    assert says(*reward, "--group", 1).startswith("mebp: --group is 1; a group needs at least 2 completions")
    assert says(*reward, "--temperature", 0).startswith("mebp: temperature is 0, so all completions of a prompt would")
    assert says(*reward, "--entropy-coef", 0.1) == (
        f"mebp: --entropy-coef needs the derivative of the head's entropy, which {bundle} was compiled without; "
        "compile it with --entropy-bonus"
    )
    assert says(*reward, "--loss-type", "ppo").startswith("mebp: loss_type is 'ppo'; choose grpo")
    two = "--reward", f"{folder / 'rewards.py'}:two"
    assert "reward two: gives 2 for 8 completions" in says(*two, "--max-completion", 4, "--steps", 1)
    same = "--reward", f"{folder / 'rewards.py'}:same"
    line = says(*same, "--group", 2, "--max-completion", 4, "--epochs", 1)
    assert "all 4 groups of the epoch had equal rewards, so nothing was learned" in line


def test_a_reward_sees_thoughts_and_answers_apart(bundle, tmp_path):
    """Also a thought that the prompt has opened."""
    (tmp_path / "apart.py").write_text(
        "def reward(completion_thoughts, completion_answers):\n"
        "    assert completion_thoughts == ['Hm.', 'So on'] and completion_answers == ['4', '']\n"
        "    return [1.0, 0.0]\n"
    )
    completions = [{"text": "Hm.</think>4"}, {"text": "So on"}]
    file = tmp_path / "rollouts.jsonl"
    file.write_text(json.dumps({"prompt": "2+2=<think>\n", "completions": completions}))
    run = mebp.train(bundle, file, objective="grpo", rollouts=file, reward=[f"{tmp_path / 'apart.py'}:reward"],
                     steps=1, progress=False)  # fmt: skip
    assert len(run.records) == 1
