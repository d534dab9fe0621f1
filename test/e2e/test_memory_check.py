# SPDX-License-Identifier: Apache-2.0
"""A session lives within its layout: it computes the same bits where nothing is left of what lay there before, and
where everything has a place of its own. And the system counts no more than what is laid out."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from parts.process_memory import watch

import mebp
from mebp.inspect import inspect
from mebp.tools import find_tool
from support import golden
from support.golden import ARCHIVES, run_module
from support.soak import SOAK

ROUNDS, MEASURED = (2000, 60) if SOAK else (200, 20)


def test_random_sessions_compute_the_same(tmp_path, show):
    run_module("support.random_sessions", tmp_path / "found.json", ROUNDS)
    found = json.loads((tmp_path / "found.json").read_text())
    for each in found:
        plain, *checked = each["outcomes"]
        assert all(one == plain for one in checked), each
    refused = Counter(each["outcomes"][0].get("refused") for each in found)
    show(f"{len(found)} sessions of {len({each['bundle'] for each in found})} bundles, of which {refused[None]} ran: "
         "the same bits where what begins to live is NaN, and where nothing shares a place")  # fmt: skip
    assert refused[None] > 0.7 * len(found)


@pytest.mark.parametrize("check", ["fill", "apart"])
def test_golden_folders_give_their_bits(tmp_path, check):
    """Objectives and splits, too, and states."""
    run_module("support.golden", tmp_path / "found.json", *ARCHIVES, MEBP_CHECK_MEMORY=check)
    for archive, found in json.loads((tmp_path / "found.json").read_text()).items():
        assert "error" not in found, (archive, found["error"])
        assert found["run"] == found["expected"], archive


def test_the_system_counts_no_more_than_the_layout(tmp_path):
    """Of mebp-run, by random options: what a session lays out, and what the process has beside it."""
    draw = random.Random(20)
    folders = [golden.unpack(archive, tmp_path / archive.name) for archive in ARCHIVES]
    of_tokens = [
        folder / "model.mebp"
        for folder in folders
        if golden.read(folder)[0].kind == "steps" and inspect(folder / "model.mebp")["model"]["task"] == "causal"
    ]
    measured = 0
    while measured < MEASURED:
        bundle = draw.choice(of_tokens)
        described = inspect(bundle)
        options = {"optimizer": described["plan"]["optimizer"]}
        if "galore" not in options["optimizer"]:
            options["optimizer"] = draw.choice(["adamw", "sgd", "lion", "adamw8bit", "mezo"])
        spills = options["optimizer"] != "mezo" and draw.random() < 0.3
        session = {"spill_folder": tmp_path, "state_in_file": draw.random() < 0.5} if spills else {}
        try:
            planned = mebp.Session(bundle, threads=1, return_gradients=False, **options, **session).plan
        except mebp.Error:
            continue  # MeZO moves nothing in bf16
        measured += 1
        model = described["model"]
        shape = (2 * model["batch"], model["sequence"])
        tokens = np.random.default_rng(measured).integers(3, model["vocabulary"], shape)
        np.save(tmp_path / "tokens.npy", tokens.astype(np.int32))
        command = [find_tool("mebp-run"), str(bundle), "--tokens", str(tmp_path / "tokens.npy"), "--threads", "1"]
        command += ["--steps", "2", "--optimizer", options["optimizer"]]
        command += ["--spill", str(tmp_path)] if spills else []
        command += ["--spill-optimizer"] if session.get("state_in_file") else []
        written = watch(command, interval=0.002)[0].written
        assert written <= planned["planned_peak_bytes"], (command, planned)


def test_an_unknown_check_is_refused(bundle, monkeypatch):
    monkeypatch.setenv("MEBP_CHECK_MEMORY", "all")
    with pytest.raises(mebp.Error, match="MEBP_CHECK_MEMORY=all is no check; give fill or apart, or leave it out"):
        mebp.Session(bundle)
