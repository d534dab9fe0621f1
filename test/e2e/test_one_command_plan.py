# SPDX-License-Identifier: Apache-2.0
"""What `mebp train MODEL` chooses and refuses before it exports; without --memory-budget, a part of what is free."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mebp
from mebp.building.using import find_used
from mebp.cli.main import main
from mebp.compile_options import CompileOptions
from mebp.inspect import inspect, storage_options
from support import models
from support.textmodel import make_tokenizer

FREE = 16e6  # a quarter has room for some of the plans


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "tiny"
    models.save(models.build("llama"), folder)
    make_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def free(cache, monkeypatch) -> Callable[[float], None]:
    """Sets what is free; nobody asks for a budget."""
    monkeypatch.setenv("MEBP_CACHE", str(cache))
    monkeypatch.delenv("MEBP_MEMORY_BUDGET")
    set_free = lambda size: monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: size)  # noqa: E731
    set_free(FREE)
    return set_free


@pytest.fixture
def samples(tmp_path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"Lamp {n}:", "completion": " is lit"}) + "\n" for n in range(6)))
    return path


def kept(cache: Path) -> list[str]:
    """What is in the cache."""
    return sorted(str(entry.relative_to(cache)) for entry in cache.glob("*/*"))


def told(capsys: pytest.CaptureFixture) -> str:
    lines = capsys.readouterr().out.splitlines()
    return next(line for line in lines if line.startswith("--memory-budget "))


def test_the_plan_takes_a_quarter_and_nothing_else_changes(model, free, samples, tmp_path, capsys):
    run = mebp.train(model, samples, steps=1)
    line = told(capsys)
    assert re.fullmatch(
        r"--memory-budget [0-9]+KB --spill none --generate-len 512: the fastest plan within a quarter of the 16 MB "
        r"that are free; the smallest takes [0-9.]+ MB, with which a step takes [0-9.]+ times as long",
        line,
    )
    plan, usual = run.session.plan, mebp.train(model, samples, steps=1, memory_budget="none", progress=False).session
    assert plan["peak_bytes"] <= plan["budget_bytes"] <= FREE / 4 and plan["file_bytes"] == 0
    assert plan["predicted_seconds"] < usual.plan["predicted_seconds"] and usual.plan["budget_bytes"] == 0
    for name in ("max_batch", "max_sequence", "max_positions", "packs"):
        assert getattr(run.session, name) == getattr(usual, name), name

    words = shlex.split(line.split(": ")[0])
    given = dict(zip(words[::2], words[1::2], strict=True))
    size, spill, length = (given[name] for name in ("--memory-budget", "--spill", "--generate-len"))
    options = {"memory_budget": size, "spill": spill, "generate_len": int(length)}
    again = mebp.train(model, samples, steps=1, progress=False, **options).session
    assert again.path != run.session.path and again.plan == plan

    # It binds no run of the bundle, as a budget that somebody asked for does.
    needs_more = {"steps": 1, "clip": 1.0, "progress": False}
    assert mebp.train(run.session.path, samples, **needs_more).session.plan["planned_peak_bytes"] > plan["budget_bytes"]
    with pytest.raises(mebp.Error, match="was compiled for a budget of"):
        mebp.train(again.path, samples, **needs_more)


def test_a_bundle_that_fits_is_taken_from_the_cache(model, free, samples, capsys):
    first = mebp.train(model, samples, steps=1, progress=False).session
    free(2 * FREE)
    second = mebp.train(model, samples, steps=1).session
    assert second.path == first.path
    assert told(capsys).endswith(": as a bundle in the cache has it, within a quarter of the 32 MB that are free")
    free(FREE / 2)
    third = mebp.train(model, samples, steps=1).session
    assert third.path != first.path and third.plan["peak_bytes"] < first.plan["peak_bytes"]
    assert "the smallest plan, for none fits a quarter of the 8 MB that are free" in told(capsys)


@pytest.mark.parametrize("share", [0.5, 2])
def test_a_resumed_run_keeps_it(model, free, samples, tmp_path, capsys, share):
    state = tmp_path / "state"
    first = mebp.train(model, samples, steps=1, state=state, progress=False).session
    free(FREE * share)
    second = mebp.train(model, samples, steps=2, state=state, resume=True).session
    assert second.path == first.path and second.steps == 2
    assert told(capsys).endswith(": as this run began")


def test_a_state_without_it_goes_on_without_it(model, free, samples, tmp_path):
    state = tmp_path / "state"
    first = mebp.train(model, samples, steps=1, state=state, memory_budget="none", progress=False).session
    assert mebp.train(model, samples, steps=2, state=state, resume=True, progress=False).session.path == first.path


def test_an_adapter_keeps_it(model, free, samples, tmp_path):
    adapter = tmp_path / "adapter"
    path = mebp.train(model, samples, steps=1, adapter_out=adapter, progress=False).session.path
    compiled = json.loads((adapter / "mebp.json").read_text())["compile"]
    assert compiled["budget_is_chosen"] and compiled["memory_budget"] in path.parent.name
    shutil.rmtree(path.parent)
    free(FREE / 2)
    assert find_used(adapter, None, None, CompileOptions()).bundle == path and path.is_dir()


def test_a_plan_alone_writes_nothing(model, free, cache, samples, bundle, data, tmp_path, capsys):
    outputs = {"adapter_out": tmp_path / "out" / "adapter", "state": tmp_path / "state", "log": tmp_path / "log.jsonl"}
    mebp.train(model, samples, steps=1, progress=False)
    before = kept(cache)
    run = mebp.train(model, samples, plan_only=True, lora_rank=3, **outputs)
    said = capsys.readouterr().out
    assert re.search(r"^  peak +\d+\.\d\d MB  all memory", said, re.MULTILINE) and " s a step\n" in said
    assert run.session is None and run.records == [] and kept(cache) == before
    run = mebp.train(bundle, data, plan_only=True, clip=1.0, **outputs)
    said = capsys.readouterr().out
    planned = run.session.plan["planned_peak_bytes"]
    assert said.startswith("planned peak: ") and f"this run: {planned / 1e6:.1f} MB, with Python" in said
    assert planned > run.session.plan["peak_bytes"] and run.session.steps == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "data.txt"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--seq-len 600", "--seq-len 600: the model has 512 positions; give at most 512"),
        ("--generate-len 600", "--generate-len 600: the model has 512 positions; give at most 512"),
        ("--lora-rank 97", "--lora-rank 97 is above the model's width; give at most 96"),
        (
            "--memory-budget 1MB",
            "--memory-budget 1MB: any plan of this model needs more than 1.06 MB; give more, or see what each budget "
            "buys with mebpc --frontier",
        ),
        (
            "--train full --weights int8",
            "--weights int8: a step cannot change weights that are stored so; give --weights bf16 or f32, leave it "
            "out, or leave out --train full",
        ),
        (
            "--model-out m",
            "--model-out m: an adapter is trained, and no weights of the model; give --train full, or --adapter-out",
        ),
        ("--train full --adapter-out a", "--adapter-out a: --train full has no adapter; leave it out, and give "
                                         "--model-out"),
        ("--adapter a", "a/adapter_model.safetensors: cannot be read (No such file or directory); check --adapter"),
        ("--spill-dir a", "--spill-dir a: is not a folder; choose one on a disk"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_not_exported(model, samples, tmp_path, capsys, monkeypatch, options, line):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)
    assert main(["train", str(model), "--data", str(samples), *options.split()]) == 2
    assert capsys.readouterr().err == f"mebp: {line}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_full_training_chooses_what_it_can_train(model, free, samples, capsys):
    run = mebp.train(model, samples, steps=1, train="full")
    assert "--weights bf16: a step can change weights that are stored so\n" in capsys.readouterr().out
    assert storage_options(inspect(run.session.path))["weights"] == "bf16"
    for options, weights in (
        ({"train_targets": "*norm*"}, "int4"),
        ({"optimizer": "qgalore", "galore_rank": 4}, "int8"),
    ):
        run = mebp.train(model, samples, steps=1, train="full", progress=False, **options)
        assert storage_options(inspect(run.session.path))["weights"] == weights
