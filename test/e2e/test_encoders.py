# SPDX-License-Identifier: Apache-2.0
"""Encoders that tell texts apart: gradients against float64, padding, runs on data, adapters in PEFT, refusals."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import mebp
from mebp.cli import main
from mebp.compiler import run_mebpc
from mebp.inspect import inspect
from mebp.verification.inputs import randomise_adapter
from support import encoders
from support.commands import bundle_of, refusal_in_process, refused_export
from support.commands import mebp as command
from support.pipeline import check

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN, EVAL = EXAMPLES / "brindle_rock_notes.jsonl", EXAMPLES / "brindle_rock_notes_questions.jsonl"
SEQUENCE, LENGTHS = 40, [40, 23, 1]


def make_bundle(model, folder: Path, **options: object) -> Path:
    mebp.export(model, folder / "model.onnx", seq_len=SEQUENCE, batch=len(LENGTHS), task="classify")
    options = {"weights": "int8", "precision": "f32", **options}
    return mebp.compile(folder / "model.onnx", folder / "model.mebp", **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A BERT and its bundle."""
    model = encoders.build("bert")
    folder = tmp_path_factory.mktemp("bert")
    make_bundle(model, folder)
    return model, folder / "model.mebp"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """The folder of a run on the notes of examples/, by one command, and what it printed."""
    folder = tmp_path_factory.mktemp("notes")
    samples = [json.loads(line) for path in (TRAIN, EVAL) for line in path.read_text().splitlines()]
    model = encoders.build("bert", classes=2, num_hidden_layers=2)
    source = encoders.save_with_tokenizer(model, (each["text"] for each in samples), folder / "source")
    run = command(
        "train", source, "--task", "classify", "--data", TRAIN, "--eval", EVAL, "--epochs", 6, "--batch", 8,
        "--lr", "3e-3", "--precision", "f32", "--weights", "f32", "--adapter-out", folder / "adapter",
        "--log", folder / "log.jsonl",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder, run.stdout


def test_the_next_command_works(trained, capsys):
    folder, printed = trained
    line = printed.split("next: ")[1].strip()
    assert line == f"mebp eval {folder / 'adapter'} --data {EVAL}"
    assert main(shlex.split(line)[1:]) == 0
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.parametrize("family", encoders.FAMILIES)
def test_padded_gradients(family, tmp_path, show, made):
    model, bundle = made if family == "bert" else (encoders.build(family), None)
    if bundle is None:
        make_bundle(model, tmp_path)
        bundle = tmp_path / "model.mebp"
    session = mebp.Session(bundle)
    randomise_adapter(session)
    result = encoders.compare(bundle, session, model, encoders.batch_of(LENGTHS, SEQUENCE))
    show(f"{family}: {result}")
    check(result)


def test_a_mean_of_tokens_is_that_of_the_sample(tmp_path, show):
    model = encoders.build("modernbert", classifier_pooling="mean")
    make_bundle(model, tmp_path)
    session = mebp.Session(tmp_path / "model.mebp")
    randomise_adapter(session)
    result = encoders.compare(tmp_path / "model.mebp", session, model, encoders.batch_of(LENGTHS, SEQUENCE))
    show(f"modernbert, mean: {result}")
    check(result)
    assert mebp.verify(tmp_path / "model.mebp").agrees


@pytest.mark.parametrize(("exported", "longest"), [(8, 9), (9, 9), (10, 66)])
def test_a_window_that_hides_nothing_limits_the_sequence(exported, longest, tmp_path):
    """A graph without a window is right only for sequences that it holds: 8 tokens at one side, and the token."""
    model = encoders.build("modernbert")
    mebp.export(model, tmp_path / "model.onnx", seq_len=exported, task="classify")
    compiling = {"weights": "f32", "precision": "f32"}
    mebp.compile(tmp_path / "model.onnx", tmp_path / "a.mebp", seq_len=longest, **compiling)
    assert mebp.verify(tmp_path / "a.mebp").agrees
    with pytest.raises(mebp.Error, match=f"--seq-len {longest + 1} is more than .* supports; give at most {longest}"):
        mebp.compile(tmp_path / "model.onnx", tmp_path / "b.mebp", seq_len=longest + 1, **compiling)


def test_naive_kernels_agree(made):
    model, bundle = made
    session = mebp.Session(bundle, reference_kernels=True)
    randomise_adapter(session)
    check(encoders.compare(bundle, session, model, encoders.batch_of(LENGTHS, SEQUENCE)))


def test_padding_and_neighbours_are_not_seen(made):
    """A sample has one loss, alone, padded, or in one row with another."""
    session = mebp.Session(made[1])
    ids, labels, starts = encoders.batch_of([17, 23], SEQUENCE)
    alone = [session.loss(ids[i : i + 1, :length], labels[i : i + 1, :length]) for i, length in enumerate((17, 23))]
    padded = session.loss(ids, labels, starts)
    one_row = [np.concatenate([each[0, :17], each[1, :23]])[None] for each in (ids, labels)]
    shared = session.loss(*one_row, np.array([[0] * 17 + [17] * 23]))
    assert padded == pytest.approx(np.mean(alone), rel=1e-6) and shared == pytest.approx(np.mean(alone), rel=1e-6)
    other = ids.copy()
    other[0, 17:] = 7
    assert session.loss(other, labels, starts) == padded
    assert abs(session.loss(ids, labels) - padded) > 1e-4 * padded  # without starts, rows are whole samples


def test_verify_agrees(made):
    assert mebp.verify(made[1]).agrees


def test_bundle_says_what_it_tells_apart(made):
    description = inspect(made[1])
    assert description["model"]["classes"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
    names = {each["name"] for each in description["trainables"]}
    assert {"classifier.weight", "classifier.bias"} <= names
    assert "base_model.model.bert.pooler.dense.lora_A.weight" in names


def test_one_command_learns_the_notes(trained, show):
    folder, said = trained
    (before,) = re.findall(r"before training  eval loss [\d.]+  accuracy ([\d.]+)", said)
    after = re.findall(r"eval loss [\d.]+  accuracy ([\d.]+)", said)[-1]
    show(f"accuracy on {EVAL.name}: {before} before, {after} after")
    assert "--task classify: 2 classes, bakery, harbour" in said
    assert float(before) < 0.8 and float(after) > 0.9
    logged = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["accuracy"] for line in logged if "eval_loss" in line][-1] == float(after)


def test_eval_gives_accuracy_of_the_adapter(trained):
    folder, said = trained
    bundle = bundle_of(said)
    run = command("eval", bundle, "--data", EVAL, "--adapter", folder / "adapter", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["accuracy"] > 0.9 and found["samples"] == 32


def test_adapter_gives_the_same_logits_in_peft(trained):
    folder, said = trained
    session = mebp.Session(bundle_of(said))
    session.load_adapter(folder / "adapter")
    settings = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert settings["task_type"] == "SEQ_CLS" and settings["modules_to_save"] == ["classifier"]
    card = (folder / "adapter" / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card and "The classes are `bakery` (0), `harbour` (1)." in card
    assert "perplexity" not in card
    base = AutoModelForSequenceClassification.from_pretrained(folder / "source")
    model = peft.PeftModel.from_pretrained(base, folder / "adapter").eval()
    text = json.loads(EVAL.read_text().splitlines()[0])["text"]
    ids = AutoTokenizer.from_pretrained(folder / "source")(text, return_tensors="pt").input_ids
    with torch.no_grad():
        expected = model(ids).logits.numpy()
    np.testing.assert_allclose(session.logits(ids.numpy(), 0, 1)[:, 0], expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("onto", ["stored", "published"])
def test_merged_model_gives_the_same_logits(trained, tmp_path, onto):
    """The head that was trained as itself has its trained values, whatever the adapter is merged onto."""
    folder, said = trained
    mebp.merge(bundle_of(said), folder / "adapter", tmp_path / "merged", dtype="f32", onto=onto)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert model.config.id2label == {0: "bakery", 1: "harbour"}
    session = mebp.Session(bundle_of(said))
    session.load_adapter(folder / "adapter")
    ids = np.array([[2, 9, 17, 30, 3]])
    with torch.no_grad():
        expected = model(torch.from_numpy(ids)).logits.numpy()
    np.testing.assert_allclose(session.logits(ids, 0, 1)[:, 0], expected, rtol=2e-4, atol=2e-4)


def test_labels_beyond_the_classes(made):
    session = mebp.Session(made[1])
    ids, labels, starts = encoders.batch_of(LENGTHS, SEQUENCE)
    labels[1, 0] = 3
    with pytest.raises(mebp.Error, match=r"label 3 at row 1, position 0 is neither -100 nor one of the 3 classes"):
        session.loss(ids, labels, starts)


def test_no_text_from_a_classifier(made):
    with pytest.raises(mebp.Error, match="tells 3 classes apart and predicts no text"):
        mebp.Session(made[1]).generate([[5, 6]])
    with pytest.raises(mebp.Error, match="tells 3 classes apart and predicts no text"):
        mebp.Session(made[1]).logprobs([[5, 6]])


@pytest.mark.parametrize(
    "option",
    [["--generate-len", 32], ["--chunk-size", 16], ["--value-head"], ["--adapter", "private-lora"]],
    ids=lambda option: option[0],
)
def test_options_for_text_are_refused(made, option):
    onnx = made[1].parent / "model.onnx"
    with pytest.raises(mebp.Error, match=f"{option[0]}.*is not for an encoder, whose tokens see all of their sample"):
        run_mebpc(onnx, onnx.parent / "other.mebp", {option[0][2:].replace("-", "_"): [*option, True][1]})


@pytest.mark.parametrize(
    "lines, expected",
    [
        (['{"text": "A boat", "label": "ship"}'], "its label is 'ship'; the classes are bakery (0), harbour (1)"),
        (['{"text": "A boat", "label": 2}'], "its label is 2; the classes are bakery (0), harbour (1)"),
        (['{"text": "A boat", "label": true}'], '"label" is a truth value; give the name of a class or its number'),
        (['{"text": " ", "label": 1}'], '"text" is empty, so there is nothing to tell its class by; leave it out'),
        (['{"label": 1}'], 'has no "text"; give {"text", "label"}, with or without "text_pair", a line'),
        (
            ['{"text": "A boat", "label": 1}', '{"text": "A ship", "label": "harbour"}'],
            "every label is 'harbour', so there is nothing to tell apart; add samples of other classes",
        ),
        (["A boat"], 'is not JSON; give {"text", "label"}, with or without "text_pair", a line'),
    ],
)
def test_data_that_is_refused(trained, tmp_path, capsys, lines, expected):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(line + "\n" for line in lines))
    assert expected in refusal_in_process(capsys, "train", bundle_of(trained[1]), "--data", data)


def test_what_is_not_for_a_classifier_is_refused(trained, capsys):
    bundle = bundle_of(trained[1])
    told = refusal_in_process(capsys, "train", bundle, "--data", TRAIN, "--objective", "dpo")
    assert "--objective dpo is for language models" in told
    told = refusal_in_process(capsys, "train", bundle, "--data", TRAIN, "--task", "causal")
    assert "--task causal:" in told and "tells 2 classes apart; leave it out" in told
    assert "predicts no text" in refusal_in_process(capsys, "generate", bundle, "--prompt", "A boat")


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"model_type": "t5"}, "model type 't5' has an encoder and a decoder; --task classify trains encoders of text"),
        ({"model_type": "vit"}, "model type 'vit' takes images; --task classify trains encoders of text"),
        ({"model_type": "llama"}, "model type 'llama' is none of those that mebp trains to classify"),
        ({"model_type": "bert", "is_decoder": True}, '"is_decoder" is true, so its tokens do not see the later ones'),
        ({"model_type": "bert", "id2label": {"0": "one"}}, "1 class; give at least two, with mebp export --classes"),
        ({"model_type": "bert", "problem_type": "regression"}, "its problem_type is regression"),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_models_that_are_refused(tmp_path, capsys, fields, expected):
    assert expected in refused_export(capsys, tmp_path, fields, "classify")


def test_encoder_without_a_task_names_it(tmp_path, capsys):
    encoders.build("bert").save_pretrained(tmp_path / "source")
    capsys.readouterr()
    told = refusal_in_process(capsys, "export", tmp_path / "source", "-o", tmp_path / "model.onnx")
    assert "model type 'bert' is an encoder; give --task classify or token-classify or fill-mask to train it" in told
