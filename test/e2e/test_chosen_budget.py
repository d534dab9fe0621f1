# SPDX-License-Identifier: Apache-2.0
"""`mebp train MODEL` without --memory-budget: the plan takes a part of what is free, and all else is as without one."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mebp
from mebp.building.using import find_used
from mebp.compile_options import CompileOptions
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


def told(capsys: pytest.CaptureFixture) -> str:
    lines = capsys.readouterr().out.splitlines()
    return next(line for line in lines if line.startswith("--memory-budget "))


def test_the_plan_takes_a_quarter_and_nothing_else_changes(model, free, samples, tmp_path, capsys):
    run = mebp.train(model, samples, steps=1)
    line = told(capsys)
    assert re.fullmatch(
        r"--memory-budget [0-9.]+MB --spill none --generate-len 512: the fastest plan within a quarter of the 16 MB "
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
