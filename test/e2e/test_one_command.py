# SPDX-License-Identifier: Apache-2.0
"""`mebp train MODEL`: exports, compiles and trains; what was made is in the cache, whole or not at all."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

import mebp
from mebp import Error
from mebp.inspect import inspect, storage_options
from mebp.remote_adapters import listed_kinds
from support import models
from support.commands import TIMEOUT, command_line, printed, refusal, refusal_in_process, running
from support.commands import mebp as command
from support.textmodel import make_tokenizer

SAMPLES = [{"prompt": f"Lamp {index}:", "completion": " is lit"} for index in range(6)]
SUMMARY = (
    "int4 weights, int8 embedding, bf16 activations; LoRA of rank 8, alpha 16, on q_proj, k_proj, v_proj, o_proj, "
    "gate_proj, up_proj, down_proj, in 1 of 1 layer; batch 1; generates text up to 512 tokens"
)


def write(path: Path, *samples: dict) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "tiny"
    models.save(models.build("llama", num_hidden_layers=1), folder)
    make_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory, model) -> Path:
    """With the model compiled for samples of SAMPLES' length."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEBP_CACHE", str(folder))
        data = write(folder / "data.jsonl", *SAMPLES)
        run = mebp.train(model, data, steps=1, progress=False)
        assert run.session.max_sequence == 32
        data.unlink()
    return folder


@pytest.fixture
def cached(cache, monkeypatch) -> Path:
    monkeypatch.setenv("MEBP_CACHE", str(cache))
    return cache


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """A cache with nothing in it."""
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "empty"))
    return tmp_path / "empty"


@pytest.fixture
def samples(tmp_path) -> Path:
    return write(tmp_path / "data.jsonl", *SAMPLES)


def kept(cache: Path) -> list[str]:
    """What is in the cache, and what a writer may have left there."""
    return sorted(str(entry.relative_to(cache)) for entry in cache.glob("*/*"))


def compiled(model: Path, folder: Path) -> Path:
    """The bundle that the cache has for SAMPLES."""
    return mebp.train(model, write(folder / "samples.jsonl", *SAMPLES), steps=1, progress=False).session.path


def adapter_bytes(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_one_command_makes_a_bundle_and_an_adapter(model, empty, samples, tmp_path):
    arguments = ["train", model, "--data", samples, "--steps", 3, "--lr", "1e-2"]
    first = command(*arguments, "--adapter-out", tmp_path / "first")
    assert first.returncode == 0 and not first.stderr, first.stderr
    lines = first.stdout.splitlines()
    assert lines[:2] == [f"looking for {model}", f"reading {samples}"]
    assert lines[2] == "--seq-len 32: which holds all 6 samples, the longest of 15"
    assert "tracing LlamaForCausalLM for 1 x 512 tokens" in lines and "compiling" in lines
    entries = kept(empty)
    assert len(entries) == 2 and entries[0].startswith("bundles/tiny-") and entries[1].startswith("exports/tiny-")
    bundle = empty / entries[0] / "tiny.mebp"
    made = next(line for line in lines if line.startswith(f"{bundle}: the bundle, "))
    assert made.startswith(f"{bundle}: the bundle, exported and compiled in ")
    assert lines[lines.index(made) + 1] == SUMMARY
    assert not any(line.startswith("wrote") for line in lines)
    assert lines[-1] == f'next: mebp generate {tmp_path / "first"} --prompt "..."'

    second = command(*arguments, "--adapter-out", tmp_path / "second")
    assert second.returncode == 0 and f"{bundle}: the bundle, from the cache" in second.stdout.splitlines()
    assert "tracing" not in second.stdout and kept(empty) == entries
    direct = command("train", bundle, "--data", samples, *arguments[4:], "--adapter-out", tmp_path / "direct")
    assert direct.returncode == 0, direct.stderr
    assert adapter_bytes(tmp_path / "first") == adapter_bytes(tmp_path / "second") == adapter_bytes(tmp_path / "direct")
    config = json.loads((tmp_path / "first" / "adapter_config.json").read_text())
    assert config["r"] == 8

    other = command(*arguments, "--lora-rank", 4, "--weights", "int8", "--seq-len", 48, "--batch", 2)
    assert other.returncode == 0, other.stderr
    assert "/model.onnx: the export, from the cache" in other.stdout and "--seq-len" not in other.stdout
    assert "int8 weights" in other.stdout and "LoRA of rank 4" in other.stdout and "batch 2" in other.stdout
    assert "rows of up to 48" in other.stdout and len(kept(empty)) == 3


def test_every_option_arrives(model, cached, samples):
    options = {"weights": "bf16", "embedding_weights": "f32", "precision": "f32", "seq_len": 64, "batch": 3,
               "generate_len": 70, "train": "lora", "lora_rank": 2, "lora_alpha": 3, "lora_targets": "q_proj",
               "memory_budget": "32MB", "optimizer": "sgd", "momentum": 0.5, "threads": 1}  # fmt: skip
    run = mebp.train(model, samples, steps=1, progress=False, **options)
    description = inspect(run.session.path)
    found, plan = description["model"], description["plan"]
    assert (found["sequence"], found["batch"], found["positions"], found["activation"]) == (64, 3, 70, "f32")
    assert (found["lora"]["rank"], found["lora"]["alpha"], found["lora"]["target_modules"]) == (2, 3, ["q_proj"])
    stored = storage_options(description)
    assert (stored["weights"], stored["embedding_weights"], stored["precision"]) == ("bf16", "f32", "f32")
    assert (plan["budget_bytes"], plan["optimizer"], plan["momentum"], plan["threads"]) == (32_000_000, "sgd", 0.5, 1)
    options = {"weights_for": "*.q_proj=f32", "adapter_seed": 3, "chunk_size": 16, "checkpoint_spacing": 1,
               "loss_rows": 16, "loss_columns": 128, "spill": "checkpoints", "resident_limit": "64MB", "rates": "none",
               "value_head": True, "entropy_bonus": True, "random_weights": 5}  # fmt: skip
    description = inspect(mebp.train(model, samples, steps=1, progress=False, **options).session.path)
    stated, plan = description["manifest"]["options"], description["plan"]
    assert (stated["weights_for"], stated["lora"]["seed"], stated["value_head"]) == (["*.q_proj=f32"], 3, True)
    assert (plan["chunk"], plan["spacing"], plan["loss_rows"], plan["loss_columns"]) == (16, 1, 16, 128)
    assert plan["spill_checkpoints"] and plan["resident_limit"] == 64_000_000 and stated["entropy_bonus"]
    full = mebp.train(model, samples, steps=1, progress=False, train="full", train_targets="*norm*", weights="f32")
    assert all("norm" in name for name in full.session.trainables())


def test_private_lora(model, cached, samples, tmp_path):
    """mebpc's --adapter, which names a folder here, goes by another name; its refusals, too."""
    given = ["train", model, "--data", samples, "--steps", 2]
    private = ["--adapter-kind", "private-lora"]
    run = command(*given, *private, "--rank-down", 4, "--rank-up", 6, "--share-a", "--split-layers", "0-0",
                  "--adapter-out", tmp_path / "adapter")  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "PrivateLoRA of ranks 4 down and 6 up, on q_proj, k_proj, v_proj" in run.stdout
    assert (tmp_path / "adapter" / "private_lora.safetensors").exists()
    taking = listed_kinds("rank-up")
    for more, why in [
        ([*private, "--lora-rank", 4],
         "--lora-rank: is not for --adapter-kind private-lora; give --rank-down and --rank-up"),
        (["--adapter-kind", "lora", "--rank-up", 4],
         f"--rank-up: is not for --adapter-kind lora; leave it out, or give --adapter-kind {taking}"),
    ]:  # fmt: skip
        refused = command(*given, *more)
        assert refused.returncode == 2 and refused.stderr.splitlines() == [f"mebp: {why}"], refused.stderr
    run = mebp.train(model, samples, steps=1, progress=False, adapter_kind="private-lora", share_a=True, rank_up=6)
    assert inspect(run.session.path)["manifest"]["options"]["lora"]["share_a"] is True
    with pytest.raises(mebp.Error) as error:
        mebp.train(run.session.path, samples, steps=1, progress=False, adapter_kind="private-lora")
    assert str(error.value) == (
        f"--adapter-kind is for a model, and {run.session.path} is compiled already; give the model, or compile it "
        "again with mebpc --adapter"
    )


def test_the_budget_may_be_what_is_free(model, cached, samples):
    run = command("train", model, "--data", samples, "--steps", 1, "--memory-budget", "auto")
    assert run.returncode == 0, run.stderr
    line = next(line for line in run.stdout.splitlines() if line.startswith("--memory-budget "))
    assert line.endswith(" MB are free, a quarter of which is left to all else")


def test_a_resumed_run_keeps_its_budget(model, cached, samples, tmp_path, monkeypatch, capsys):
    options = {"memory_budget": "auto", "state": tmp_path / "state"}
    monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: 100e6)
    first = mebp.train(model, samples, steps=1, **options, progress=False).session
    monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: 400e6)
    second = mebp.train(model, samples, steps=2, **options, resume=True).session
    assert second.path == first.path and second.steps == 2
    assert "--memory-budget 67MB: as this run began\n" in capsys.readouterr().out
    third = mebp.train(model, samples, steps=2, **options, overwrite=True, progress=False).session
    assert third.path != first.path


def test_a_run_of_a_model_is_resumed(model, cached, samples, tmp_path):
    arguments = ["train", model, "--data", samples, "--lr", "1e-2", "--state", tmp_path / "state"]
    assert command(*arguments, "--steps", 2).returncode == 0
    rest = command(*arguments, "--steps", 5, "--resume", "--adapter-out", tmp_path / "resumed")
    assert rest.returncode == 0 and "continues after step 2" in rest.stdout, rest.stderr
    assert command(*arguments[:-2], "--steps", 5, "--adapter-out", tmp_path / "whole").returncode == 0
    assert adapter_bytes(tmp_path / "resumed") == adapter_bytes(tmp_path / "whole")


def test_a_folder_of_data(model, cached, tmp_path):
    folder, log, adapter = tmp_path / "data", tmp_path / "run.jsonl", tmp_path / "adapter"
    folder.mkdir()
    write(folder / "train.jsonl", *SAMPLES)
    write(folder / "validation.jsonl", {"prompt": "Lamp 7:", "completion": " is lit"})
    write(folder / "test.jsonl", {"prompt": "Lamp 8:", "completion": " is lit"})
    run = command("train", model, "--data", folder, "--steps", 6, "--lr", "5e-2", "--eval-every", 2, "--keep", "best",
                  "--adapter-out", adapter, "--log", log)  # fmt: skip
    assert run.returncode == 0, run.stderr
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    losses = {entry["step"]: entry["eval_loss"] for entry in entries if "eval_loss" in entry}
    best = min(losses, key=losses.get)
    assert list(losses) == [2, 4, 6] and entries[-1].keys() == {"step", "test_loss"} and entries[-1]["step"] == best
    line = next(line for line in run.stdout.splitlines() if line.startswith(f"{folder / 'test.jsonl'}: test"))
    assert line.startswith(f"{folder / 'test.jsonl'}: test loss {entries[-1]['test_loss']:.4f}  perplexity ")
    assert line.endswith(f", after step {best}")
    # The command of the card names what was asked for, and not where its bundle is kept.
    assert f"| `mebp train {model} --data {folder}/train.jsonl " in (adapter / "README.md").read_text()
    measured = command("eval", compiled(model, tmp_path), "--data", folder / "test.jsonl",
                       "--adapter", adapter)  # fmt: skip
    assert f"loss {entries[-1]['test_loss']:.4f}" in measured.stdout, measured.stderr


def test_the_best_is_tested_and_the_last_stays(model, cached, samples, tmp_path, monkeypatch):
    losses = [1.0, 2.0, 3.0, 7.0]  # of three evaluations and the test
    seen = []

    def evaluate(session, *_: object, **__: object) -> float:
        seen.append(next(iter(session.trainables().values())).copy())
        return losses[len(seen) - 1]

    monkeypatch.setattr("mebp.training.objectives.rows.evaluate", evaluate)
    run = mebp.train(model, samples, steps=3, lr=1e-2, eval=samples, eval_every=1, test=samples, keep="best",
                     adapter_out=tmp_path / "adapter", progress=False)  # fmt: skip
    assert run.test_loss == 7.0
    assert (seen[3] == seen[0]).all() and (seen[3] != seen[2]).any()
    assert (next(iter(run.session.trainables().values())) == seen[2]).all()


def test_a_cache_that_cannot_be_written_does_not_matter(model, samples, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    run = command("train", model, "--data", samples, "--steps", 1, "--adapter-out", tmp_path / "adapter")
    assert run.returncode == 0 and adapter_bytes(tmp_path / "adapter"), run.stderr
    assert f"{tmp_path / 'file' / 'cache'}: cannot be written (Not a directory), so what is made" in run.stdout
    assert not list((tmp_path / "temporary").iterdir())


def test_a_gguf_file_is_a_model(model, cached, samples, tmp_path):
    bundle = compiled(model, tmp_path)
    adapter, merged = tmp_path / "adapter", tmp_path / "merged.gguf"
    mebp.train(bundle, samples, steps=1, adapter_out=adapter, progress=False)
    mebp.merge(bundle, adapter, merged)
    run = command("train", merged, "--data", samples, "--steps", 1)
    assert run.returncode == 0, run.stderr
    assert "--seq-len 32: which holds all 6 samples, the longest of 15" in run.stdout
    again = command("train", merged, "--data", samples, "--steps", 1)
    assert "/merged.mebp: the bundle, from the cache" in again.stdout, again.stderr


def test_a_model_that_cannot_be_exported_leaves_no_entry(model, empty, samples, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    tensors = load_file(broken / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, broken / "model.safetensors", {"format": "pt"})
    line = refusal("train", broken, "--data", samples)
    assert line == (
        f"mebp: {broken}: no tensor 'model.norm.weight', which its config.json asks for; either the two do not belong "
        "together, or the weights are stored in a form that export does not read"
    )
    assert kept(empty) == []


def test_a_model_that_cannot_be_compiled_leaves_its_export_alone(model, empty, samples):
    line = refusal("train", model, "--data", samples, "--memory-budget", "1.2MB")
    assert line.startswith("mebp: ") and "budget" in line and ".writing" not in line
    assert [entry.split("/")[0] for entry in kept(empty)] == ["exports"]


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "mebp: interrupted\n"), (signal.SIGTERM, 143, "")]
)
def test_a_signal_while_exporting_leaves_nothing(model, empty, samples, number, status, said):
    exporting = lambda _: any((empty / "exports").glob(".writing-*/folder/.mebp-export-*"))  # noqa: E731
    with running("train", model, "--data", samples, until=exporting) as process:
        process.send_signal(number)
        assert process.wait(TIMEOUT) == status
        assert printed(process.stderr) == said
    assert kept(empty) == [] and not any(empty.rglob(".writing*"))


SLOW = """#!/bin/sh
[ "$1" != --check-options ] || exit 0
while [ "$1" != -o ]; do shift; done
mkdir "$2.writing"
echo $$ > "$MEBP_CACHE/compiling"
exec sleep 600
"""


def test_a_signal_while_compiling_leaves_nothing(model, cached, samples, tmp_path, monkeypatch):
    tool, before, started = tmp_path / "tools" / "mebpc", kept(cached), cached / "compiling"
    tool.parent.mkdir()
    tool.write_text(SLOW)
    tool.chmod(0o755)
    monkeypatch.setenv("MEBP_TOOLS", str(tool.parent))
    started.unlink(missing_ok=True)
    written = lambda _: started.exists() and started.read_text().endswith("\n")  # noqa: E731
    with running("train", model, "--data", samples, until=written) as process:
        compiler = int(started.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
        assert printed(process.stderr) == "mebp: interrupted\n"
    assert kept(cached) == before
    with pytest.raises(ProcessLookupError):
        os.kill(compiler, 0)


def test_two_at_once(model, empty, samples, tmp_path):
    arguments = command_line("train", model, "--data", samples, "--steps", 2)
    runs = [
        subprocess.Popen([*arguments, "--adapter-out", str(tmp_path / name)], stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    outputs = [run.communicate(timeout=TIMEOUT)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert sum("tracing" in output for output in outputs) == 1
    assert sum("another process makes the same; waiting for it" in output for output in outputs) == 1
    assert adapter_bytes(tmp_path / "one") == adapter_bytes(tmp_path / "two")


def test_refusals(model, bundle, cached, samples, tmp_path, capsys):
    refused = lambda *arguments: refusal_in_process(capsys, "train", *arguments)  # noqa: E731
    before = kept(cached)
    assert refused(bundle, "--data", samples, "--lora-rank", 4) == (
        f"mebp: --lora-rank is for a model, and {bundle} is compiled already; give the model, or compile it again with "
        "mebpc --lora-rank\n"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    assert refused(model, "--data", folder) == (
        f"mebp: {folder}: has no file to train on; put one there, or give a file\n"
    )
    with pytest.raises(Error) as caught:
        mebp.train(folder, samples, progress=False)
    assert str(caught.value) == (
        f"{folder}: neither a bundle nor a model of Hugging Face (no config.json); give one of them"
    )
    with pytest.raises(Error, match="no such folder; give a model folder or a hub id"):
        mebp.train(tmp_path / "nowhere", samples, progress=False)
    for option in ("--data", "--eval", "--test"):
        given = {"--data": samples} | {option: tmp_path / "none.jsonl"}
        assert refused(model, *[part for pair in given.items() for part in pair]) == (
            f"mebp: {tmp_path / 'none.jsonl'}: cannot be read (No such file or directory); check the path\n"
        )
    assert refused(model, "--data", samples, "--optimizer", "none").startswith(
        "mebp: optimizer 'none' is not in this build; choose "
    )
    assert refused(model, "--data", samples, "--lora-rank", "four") == (
        "mebp: --lora-rank is 'four'; give a whole number; see mebp train --help\n"
    )
    assert kept(cached) == before


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--lora-rank 0", "--lora-rank 0: give a rank of at least 1"),
        ("--train full --optimizer galore --galore-rank 0", "--galore-rank 0: give a rank of at least 1"),
        (
            "--galore-rank 4",
            "--galore-rank: is not for --optimizer adamw; leave it out, or give --optimizer galore or qgalore",
        ),
        ("--weights int3", "--weights int3: choose f32, bf16, int8, int4, int4-sym or file"),
        ("--memory-budget many", "--memory-budget many is not a size; give one such as 64MiB"),
        (
            "--optimizer lion --momentum 0.9",
            "--momentum 0.9: is not for --optimizer lion; leave it out, or give --optimizer sgd",
        ),
        ("--device gpu", "--device: gpu not in {cpu,mlx,mlx-cpu}; see mebpc --help"),
        ("--memory-budget auto --train all", "--train: all not in {lora,full}; see mebpc --help"),
    ],
)
def test_what_mebpc_refuses_is_not_exported(model, empty, samples, capsys, options, line):
    assert refusal_in_process(capsys, "train", model, "--data", samples, *options.split()) == f"mebp: {line}\n"
    assert not empty.exists()


PAIR = {"prompt": "Lamp:", "chosen": " is lit", "rejected": " is out"}


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (PAIR, {"objective": "dpo"}, "--batch 2: pairs of up to 64 tokens are faster side by side"),
        (
            {"prompt": "Lamp:"},
            {"objective": "grpo", "reward": [], "max_completion": 60, "group": 2},
            "--seq-len 96: which holds all 3 samples, the longest of 65",
        ),
    ],
    ids=["dpo", "grpo"],
)
def test_other_objectives(model, cached, tmp_path, capsys, data, options, said):
    """The length is what their data asks for."""
    if "reward" in options:
        source = "def reward(completion_ids, **_):\n    return [ids[0] for ids in completion_ids]\n"
        (tmp_path / "reward.py").write_text(source)
        options = options | {"reward": [f"{tmp_path / 'reward.py'}:reward"]}
    run = mebp.train(model, write(tmp_path / "data.jsonl", *[data] * 3), steps=1, **options)
    assert said in capsys.readouterr().out
    assert run.session.max_batch == (2 if options["objective"] == "dpo" else 1) and run.session.generates


def test_data_of_other_objectives_is_read_before_the_export(model, empty, tmp_path):
    data = write(tmp_path / "data.jsonl", PAIR, PAIR | {"rejected": " is lit"})
    for length in ({}, {"seq_len": 64}):
        with pytest.raises(Error) as caught:
            mebp.train(model, data, objective="dpo", progress=False, **length)
        assert str(caught.value).startswith(f'{data}:2: "chosen" and "rejected" are the same')
    assert not (empty / "exports").exists()


@pytest.mark.parametrize(
    ("options", "has"),
    [
        ({"objective": "ppo"}, (True, False)),
        ({"objective": "ppo", "value_model": "own"}, (True, False)),
        ({"objective": "grpo", "group": 2, "entropy_coef": 0.01}, (False, True)),
    ],
    ids=["ppo", "own value", "entropy bonus"],
)
def test_the_bundle_has_what_the_objective_needs(model, cached, tmp_path, options, has):
    prompts = write(tmp_path / "prompts.jsonl", {"prompt": "Lamp:"})
    (tmp_path / "rewards.py").write_text("def length(completions, **columns): return [len(c) for c in completions]")
    sampling = {"reward": f"{tmp_path / 'rewards.py'}:length", "max_completion": 8, "steps": 1, "progress": False}
    session = mebp.train(model, prompts, generate_len=32, **sampling, **options).session
    assert session.max_sequence == 32 and (session.has_values, session.has_entropy_bonus) == has
    assert session.has_value_adapter == ("value_model" in options)
    assert session.plan["planned_peak_bytes"] + session.plan["arenas"]["writing"] == session.plan["peak_bytes"]


def test_samples_share_rows_where_they_fill_some(cached, model, tmp_path):
    many = write(tmp_path / "many.jsonl", *SAMPLES * 50)
    few = write(tmp_path / "few.jsonl", *SAMPLES)
    for data, options, length, packs in [
        (many, {}, 64, True),
        (many, {"packing": False}, 32, False),
        (many, {"memory_budget": "1GB"}, 32, True),
        (few, {}, 32, False),
        (few, {"packing": True}, 32, True),
    ]:
        session = mebp.train(model, data, steps=1, progress=False, **options).session
        assert (session.max_sequence, session.packs) == (length, packs), (data, options)
