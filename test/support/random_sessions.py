# SPDX-License-Identifier: Apache-2.0
"""Sessions by random choices over the golden folders' bundles: each runs as it is, then with MEBP_CHECK_MEMORY.

    PYTHONPATH=test .venv/bin/python -m support.random_sessions OUT.json COUNT

Two steps, or what there is for a session without, and text where the bundle writes some. What a session refuses is an
outcome, too.
"""

import json
import os
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import mebp
from mebp.inspect import inspect
from support import golden
from support.golden import ARCHIVES, STEPS, Run

CHECKS = ("", "fill", "apart")
WRITES = [[5, 7, 11, 13, 17]]  # what a bundle that generates continues
SEED = 41


def choose(bundle: Path, run: Run, draw: random.Random) -> Run:
    """The run with other choices of the session's."""
    maybe = draw.random
    described = inspect(bundle)
    plan, model = described["plan"], described["model"]
    session = {"lr": 0.01, "optimizer": plan["optimizer"], "return_gradients": maybe() < 0.2}
    takes_any = "galore" not in plan["optimizer"]
    if takes_any:
        session["optimizer"] = draw.choice(["adamw", "sgd", "lion", "adamw8bit", "mezo"])
    else:
        session |= {"galore_update_interval": draw.choice([1, 2]), "galore_refresh": draw.choice(["sketch", "svd"])}
    if session["optimizer"] == "sgd" and maybe() < 0.5:
        session["momentum"] = 0.9
    batches = run.batches
    if run.kind == "sequences":
        session |= {"accumulate": True, "pending_gradients": True}
        session["value_adapter"] = "value_adapter" in run.session and maybe() < 0.5
    elif maybe() < (0.7 if "split" in run.session else 0.3):
        session["accumulate"] = True
        batches = [each if isinstance(each, list) else [each, each] for each in batches]
    if maybe() < 0.3:
        session |= {"clip": 0.1, "clip_recompute": maybe() < 0.5}
    if maybe() < 0.3:
        session |= {"spills": True, "state_in_file": maybe() < 0.5}
    if maybe() < 0.2:
        session["resident_limit"] = "2MB"
    if maybe() < 0.1:
        session["forward_only"] = True
    if maybe() < 0.1:
        session["generate_only"] = True
    if "split" in run.session:
        session["split"] = draw.choice([1, 2, 3]) if session.get("accumulate") else 1
    elif maybe() < 0.1:
        session["device"] = "mlx-cpu"  # which places values itself
    is_summed = session.get("accumulate") and run.kind != "sequences" and session.get("split", 1) == 1
    if is_summed and session["optimizer"] != "mezo" and (not takes_any or maybe() < 0.5):
        session["tree_batches"] = 4
    return replace(run, session=session, batches=batches, prompt=WRITES if model["positions"] else [])


def outcome(folder: Path, run: Run, scratch: Path) -> dict:
    """What comes of it: losses, a digest of what was trained, text; or the refusal."""
    try:
        made = golden.Golden(folder, run, scratch)
        made.begin()
        if run.session.get("generate_only"):
            losses = []
        elif run.session.get("forward_only"):
            first = run.batches[0][0] if isinstance(run.batches[0], list) else run.batches[0]
            labels = first.get("labels", first["input_ids"])
            losses = [made.session.loss(first["input_ids"], labels, first.get("starts")).hex()]
        else:
            losses = made.steps(0)
        return {"losses": losses, "trained": made.digest(), "text": made.text()}
    except mebp.Error as error:
        return {"refused": str(error).replace(str(scratch), "")}


def main(out: Path, count: int) -> None:
    draw, found = random.Random(SEED), []
    with tempfile.TemporaryDirectory() as scratch:
        folders = []
        for archive in ARCHIVES:
            folder = golden.unpack(archive, Path(scratch) / archive.name)
            run, _ = golden.read(folder)
            if run.kind != "objective":  # sessions of these are made by an objective
                folders.append((folder, run))
        halves = [each for each in folders if "split" in each[1].session]  # of which there are few
        for _ in range(count):
            folder, run = draw.choice(folders + 5 * halves)
            chosen = choose(folder / "model.mebp", run, draw)
            outcomes = []
            for check in CHECKS:
                os.environ["MEBP_CHECK_MEMORY"] = check
                outcomes.append(outcome(folder, chosen, Path(scratch)))
            found.append({"bundle": folder.name, "session": chosen.session, "outcomes": outcomes})
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    assert STEPS == 2
    main(Path(sys.argv[1]), int(sys.argv[2]))
