# SPDX-License-Identifier: Apache-2.0
"""README.md beside an adapter: what a run writes, and what it leaves alone."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

import mebp
from mebp.cli import main
from mebp.data import load_dataset
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer
from mebp.training.model_card import command_of
from mebp.training.options import TrainingOptions
from support.textmodel import TEXT, make_text_bundle


def rows(card: str) -> dict[str, str]:
    cells = [line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| ") and " | " in line[2:]]
    return {cell[0]: cell[1] for cell in cells if len(cell) == 2}


def test_a_run_says_what_it_did(bundle, data, tmp_path, capsys):
    adapter, state = tmp_path / "the adapter", tmp_path / "state"
    given = ["train", bundle, "--data", data, "--eval", data, "--steps", "4", "--eval-every", "2", "--lr", "0.001"]
    given = [*map(str, [*given, "--adapter-out", adapter, "--state", state, "--log", tmp_path / "log"])]
    assert main(given) == 0
    card = (adapter / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    base = Path(inspect(bundle)["model"]["name"]).name
    assert front == {"library_name": "peft", "pipeline_tag": "text-generation", "tags": ["lora", "mebp"]}
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    losses = [line["loss"] for line in log if "loss" in line]
    last = [line for line in log if "eval_loss" in line][-1]
    found = rows(card)
    assert found["training loss"] == f"{losses[0]:.4f} at the first step, {losses[-1]:.4f} at the last"
    assert found["evaluation loss"].startswith(f"{last['eval_loss']:.4f} after step {last['step']}, perplexity ")
    assert found["steps"] == "4" and found["base model"] == f"`{base}`"
    digest = load_dataset(data, Tokenizer(bundle), 32).digest
    assert found["data"] == f"`data.txt`, SHA-256 of its tokens and labels: `{digest}`"
    # The command trains the same again.
    assert sorted(shlex.split(found["command"].strip("`"))) == sorted(["mebp", *given])
    assert f"BASE is the folder of the base model, `{base}`. " in card and "mebp adapter convert" in card
    code = card.split("```python")[1].split("```")[0]
    assert 'AutoModelForCausalLM.from_pretrained("BASE")' in code and "PeftModel.from_pretrained(base" in code


@pytest.mark.parametrize(
    ("keep", "folders"),
    [
        ("last", {".": ("4", "3.0000 after step 4, perplexity 20.09")}),
        ("best", {".": ("2", "1.0000 after step 2, perplexity 2.72")}),
        ("all", {"step-2": ("2", "1.0000 after step 2, perplexity 2.72"),
                 "step-4": ("4", "3.0000 after step 4, perplexity 20.09")}),
    ],
)  # fmt: skip
def test_figures_are_of_the_adapter_that_lies_there(bundle, data, tmp_path, monkeypatch, keep, folders):
    losses = iter([1.0, 3.0])
    monkeypatch.setattr("mebp.training.objectives.rows.evaluate", lambda *_, **__: next(losses))
    run = mebp.train(bundle, data, steps=4, eval=data, eval_every=2, keep=keep, adapter_out=tmp_path / "adapter",
                     progress=False)  # fmt: skip
    for folder, (steps, evaluated) in folders.items():
        found = rows((tmp_path / "adapter" / folder / "README.md").read_text())
        assert (found["steps"], found["evaluation loss"]) == (steps, evaluated)
        last = run.records[int(steps) - 1].loss
        assert found["training loss"] == f"{run.records[0].loss:.4f} at the first step, {last:.4f} at the last"


def test_an_adapter_that_was_not_evaluated(bundle, data, tmp_path, monkeypatch):
    monkeypatch.setattr("mebp.training.objectives.rows.evaluate", lambda *_, **__: 1.0)
    mebp.train(bundle, data, steps=4, eval=data, eval_every=2, adapter_out=tmp_path / "adapter", progress=False,
               callback=lambda record: record.step == 3)  # fmt: skip
    assert rows((tmp_path / "adapter" / "README.md").read_text())["evaluation loss"] == (
        "1.0000 after step 2, perplexity 2.72; not measured after step 3"
    )


def test_what_is_given_away_says_nothing_of_a_home_folder(tmp_path, monkeypatch, capsys):
    home = tmp_path / "home of somebody"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    bundle, data, out = make_text_bundle(home), home / "data.txt", home / "out"
    data.write_text(TEXT)
    settings = bundle / "tokenizer" / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "name_or_path": f"{home}/model"}))
    assert main(["train", str(bundle), "--data", str(data), "--steps", "2", "--adapter-out", str(out / "adapter"),
                 "--plot", str(out / "run.svg"), "--eval", str(data), "--keep", "best"]) == 0  # fmt: skip
    adapter = out / "adapter"
    mebp.merge(bundle, adapter, out / "merged")
    mebp.merge(bundle, adapter, out / "merged.gguf")
    for form in ("mlx", "peft", "gguf"):
        mebp.convert_adapter(adapter, out / f"to.{form}", form, base=home / "source")
    assert main(["inspect", str(bundle), "--html", str(out / "page.html")]) == 0
    written = [file for file in [*out.rglob("*"), *bundle.rglob("*")] if file.is_file() and file != settings]
    assert len(written) > 15
    for file in written:
        assert b"of somebody" not in file.read_bytes(), file
    for folder in (adapter, out / "to.peft"):
        assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "./source"
    assert "mebp train ~/model.mebp --data ~/data.txt" in (adapter / "README.md").read_text()


def test_the_command_has_what_is_not_the_default(tmp_path):
    options = TrainingOptions(bundle=tmp_path / "a b.mebp", data=tmp_path / "data", steps=3, resume=True, clip=1.0,
                              state=tmp_path / "state",
                              optimizer_options={"betas": (0.9, 0.95), "eps": 1e-7})  # fmt: skip
    assert command_of(options) == (
        f"mebp train '{tmp_path}/a b.mebp' --data {tmp_path}/data --steps 3 --betas 0.9,0.95 --eps 1e-07 --clip 1.0 "
        f"--state {tmp_path}/state"
    )


@pytest.mark.parametrize("content", ["precious", "\xff"])
def test_a_readme_of_somebody_else_stays(bundle, data, tmp_path, content):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "README.md").write_text(content, encoding="latin-1")
    mebp.train(bundle, data, steps=1, adapter_out=adapter, progress=False)
    assert (adapter / "README.md").read_text(encoding="latin-1") == content
    assert (adapter / "adapter_model.safetensors").exists()


def test_an_older_card_is_replaced(bundle, data, tmp_path):
    adapter = tmp_path / "adapter"
    for steps in (1, 2):
        mebp.train(bundle, data, steps=steps, adapter_out=adapter, overwrite=True, progress=False)
        assert rows((adapter / "README.md").read_text())["steps"] == str(steps)
    mebp.train(bundle, data, steps=3, adapter_out=adapter, keep="all", save_every=1, overwrite=True, progress=False)
    assert (adapter / "step-3" / "README.md").exists()
    mebp.train(bundle, data, steps=1, adapter_out=adapter, keep="all", save_every=1, overwrite=True, progress=False)
    assert sorted(each.name for each in adapter.iterdir() if each.is_dir()) == ["step-1"]
