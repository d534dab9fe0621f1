# SPDX-License-Identifier: Apache-2.0
"""Encoders that tell words apart: gradients against float64, a run, the adapter in PEFT, refusals."""

import json
import re
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForTokenClassification

import mebp
from mebp.inspect import inspect
from mebp.verification.inputs import randomise_adapter
from support import encoders
from support.commands import bundle_of, refusal_in_process, refused_export
from support.commands import mebp as command
from support.pipeline import check

SEQUENCE, LENGTHS = 40, [40, 23, 1]
PLACES = ["harbour", "bakery", "lighthouse", "chapel"]
OTHERS = ["the", "boat", "bread", "bell", "waits", "is", "near", "old", "at", "by"]


def make_bundle(model, folder: Path) -> Path:
    mebp.export(model, folder / "model.onnx", seq_len=SEQUENCE, batch=len(LENGTHS), task="token-classify")
    mebp.compile(folder / "model.onnx", folder / "model.mebp", weights="int8", precision="f32")
    return folder / "model.mebp"


def sentences(count: int, seed: int) -> list[dict]:
    """Of words, of which some are places."""
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        words = generator.choice([*OTHERS, *PLACES], generator.integers(2, 12)).tolist()
        lines.append({"tokens": words, "labels": ["place" if word in PLACES else "other" for word in words]})
    return lines


def write(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """The folder of a run, by one command, and what it printed."""
    folder = tmp_path_factory.mktemp("places")
    model = encoders.build("bert", classes=2, task="token-classify", num_hidden_layers=1)
    encoders.save_with_tokenizer(model, [" ".join([*OTHERS, *PLACES])], folder / "source")
    run = command(
        "train", folder / "source", "--task", "token-classify", "--data", write(folder / "a.jsonl", sentences(80, 1)),
        "--eval", write(folder / "b.jsonl", sentences(20, 2)), "--epochs", 4, "--batch", 8, "--lr", "1e-2",
        "--precision", "f32", "--weights", "f32", "--adapter-out", folder / "adapter",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder, run.stdout


@pytest.mark.parametrize("family", encoders.FAMILIES)
def test_padded_gradients(family, tmp_path, show):
    model = encoders.build(family, task="token-classify")
    bundle = make_bundle(model, tmp_path)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    result = encoders.compare(bundle, session, model, encoders.batch_of(LENGTHS, SEQUENCE, task="token-classify"))
    show(f"{family}: {result}")
    check(result)
    assert mebp.verify(bundle).agrees
    assert inspect(bundle)["model"]["task"] == "token-classify"


def test_one_command_learns_places(trained):
    _, said = trained
    assert "--task token-classify: 2 classes, other, place" in said
    assert float(re.findall(r"eval loss [\d.]+  accuracy ([\d.]+)", said)[-1]) > 0.95


def test_eval_counts_words(trained):
    folder, said = trained
    run = command("eval", bundle_of(said), "--data", folder / "b.jsonl", "--adapter", folder / "adapter", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["words"] == sum(len(each["tokens"]) for each in sentences(20, 2)) and found["accuracy"] > 0.95


def test_adapter_gives_the_same_logits_in_peft(trained):
    folder, said = trained
    session = mebp.Session(bundle_of(said))
    session.load_adapter(folder / "adapter")
    settings = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert settings["task_type"] == "TOKEN_CLS" and settings["modules_to_save"] == ["classifier"]
    card = (folder / "adapter" / "README.md").read_text()
    assert "pipeline_tag: token-classification" in card
    assert 'AutoModelForTokenClassification.from_pretrained("BASE", num_labels=2)' in card
    base = AutoModelForTokenClassification.from_pretrained(folder / "source")
    model = peft.PeftModel.from_pretrained(base, folder / "adapter").eval()
    ids = np.array([[2, 9, 17, 3]])
    with torch.no_grad():
        expected = model(torch.from_numpy(ids)).logits.numpy()
    np.testing.assert_allclose(session.logits(ids), expected, rtol=2e-4, atol=2e-4)


def test_what_is_refused(trained, tmp_path, capsys):
    bundle = bundle_of(trained[1])
    data = write(tmp_path / "data.jsonl", [{"tokens": ["the", "boat"], "labels": ["place", "ship"]}])
    told = refusal_in_process(capsys, "train", bundle, "--data", data)
    assert "its label is 'ship'; the classes are other (0), place (1)" in told
    told = refusal_in_process(capsys, "train", bundle, "--data", data, "--task", "fill-mask")
    assert "tells 2 classes of tokens apart; leave it out, or compile a model for it" in told
    told = refusal_in_process(capsys, "train", bundle, "--data", data, "--mask-probability", 0.2)
    assert "--mask-probability is for --task fill-mask, and" in told


@pytest.mark.parametrize("model_type", ["llama", "falcon", "gpt_neo"])
def test_decoders_are_refused(tmp_path, capsys, model_type):
    told = refused_export(capsys, tmp_path, {"model_type": model_type}, "token-classify")
    assert f"model type '{model_type}' is none of those that mebp trains to classify tokens" in told
