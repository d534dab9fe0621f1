# SPDX-License-Identifier: Apache-2.0
"""Encoders that predict masked tokens: gradients against float64, runs on text, adapters in PEFT, refusals."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import mebp
from mebp.compiler import run_mebpc
from mebp.inspect import inspect
from mebp.tools import find_tool
from mebp.verification.inputs import randomise_adapter
from support import encoders
from support.commands import bundle_of, refusal, refusal_in_process, refused_export
from support.commands import mebp as command
from support.pipeline import check

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TRAIN, EVAL = EXAMPLES / "brindle_rock_notes.jsonl", EXAMPLES / "brindle_rock_notes_questions.jsonl"
WORDS = 117  # of these files, and five special ones
SEQUENCE, LENGTHS = 40, [40, 23, 1]


def make_bundle(model, folder: Path, **options: object) -> Path:
    mebp.export(model, folder / "model.onnx", seq_len=SEQUENCE, batch=len(LENGTHS), task="fill-mask")
    bundle = folder / "model.mebp"
    run_mebpc(folder / "model.onnx", bundle, {"weights": "int8", "precision": "f32", **options})
    return bundle


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A BERT and its bundle, whose loss runs in tiles that divide nothing."""
    model = encoders.build("bert", task="fill-mask")
    folder = tmp_path_factory.mktemp("bert")
    return model, make_bundle(model, folder, loss_rows=5, loss_columns=100)


def texts() -> list[str]:
    return [json.loads(line)["text"] for path in (TRAIN, EVAL) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The folder of a BERT that knows the words of the notes of examples/."""
    model = encoders.build("bert", task="fill-mask", num_hidden_layers=2, vocab_size=WORDS)
    return encoders.save_with_tokenizer(model, texts(), tmp_path_factory.mktemp("notes") / "source")


@pytest.fixture(scope="module")
def trained(source) -> tuple[Path, str]:
    """The folder of a run on these notes, by the command of docs/encoders.md in f32, and what it printed."""
    folder = source.parent
    page = (ROOT / "docs" / "encoders.md").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^\$ mebp (train tiny-bert --task fill-mask .*)", page, re.MULTILINE)
    places = {"tiny-bert": source, "adapter": folder / "adapter"}
    places |= {str(path.relative_to(ROOT)): path for path in (TRAIN, EVAL)}
    words = [places.get(word, word) for word in shlex.split(line)]
    run = command(*words, "--precision", "f32", "--weights", "f32", "--log", folder / "log.jsonl")
    assert run.returncode == 0, run.stderr
    return folder, run.stdout


@pytest.mark.parametrize("family", encoders.FAMILIES)
def test_padded_gradients(family, tmp_path, show, made):
    model, bundle = made if family == "bert" else (encoders.build(family, task="fill-mask"), None)
    bundle = bundle or make_bundle(model, tmp_path)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    result = encoders.compare(bundle, session, model, encoders.batch_of(LENGTHS, SEQUENCE, task="fill-mask"))
    show(f"{family}: {result}")
    check(result)


def test_naive_kernels_agree(made):
    model, bundle = made
    session = mebp.Session(bundle, reference_kernels=True)
    randomise_adapter(session)
    check(encoders.compare(bundle, session, model, encoders.batch_of(LENGTHS, SEQUENCE, task="fill-mask")))


def test_verify_agrees(made):
    assert mebp.verify(made[1]).agrees


def test_bundle_says_what_it_is_for(made):
    description = inspect(made[1])
    assert description["model"]["task"] == mebp.Session(made[1]).task == "fill-mask"
    names = {each["name"] for each in description["trainables"]}
    assert "base_model.model.cls.predictions.transform.dense.lora_A.weight" in names
    assert not [name for name in names if "decoder" in name]


def test_samples_in_one_row_do_not_see_each_other(made):
    session = mebp.Session(made[1])
    ids, labels, starts = encoders.batch_of([17, 23], SEQUENCE, task="fill-mask")
    alone = [session.loss(ids[i : i + 1, :length], labels[i : i + 1, :length]) for i, length in enumerate((17, 23))]
    counts = [np.count_nonzero(labels[i] != -100) for i in range(2)]
    one_row = [np.concatenate([each[0, :17], each[1, :23]])[None] for each in (ids, labels)]
    shared = session.loss(*one_row, np.array([[0] * 17 + [17] * 23]))
    assert shared == pytest.approx(np.average(alone, weights=counts), rel=1e-6)
    assert session.loss(ids, labels, starts) == pytest.approx(shared, rel=1e-6)


def test_a_first_token_may_be_masked(made):
    """Its label is its own row's: there is no token before it that predicts it."""
    session = mebp.Session(made[1])
    ids, labels = np.array([[7, 8, 9]]), np.array([[5, -100, -100]])
    row = session.logits(ids)[0, 0].astype(np.float64)
    assert session.loss(ids, labels) == pytest.approx(np.log(np.exp(row).sum()) - row[5], rel=1e-5)


def test_one_command_learns_the_notes(trained, show):
    folder, said = trained
    losses = [float(found) for found in re.findall(r"eval loss ([\d.]+)", said)]
    show(f"eval loss {losses[0]:.3f} after ten epochs, {losses[-1]:.3f} after the last")
    assert losses[-1] < np.log(WORDS) - 0.5  # what guessing has
    assert "of which 15 % are masked, in 64 samples in" in said and "perplexity" in said
    logged = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["eval_loss"] for line in logged if "eval_loss" in line][-1] == pytest.approx(losses[-1], abs=1e-4)


def test_eval_gives_the_loss_of_the_adapter(trained):
    folder, said = trained
    run = command("eval", bundle_of(said), "--data", EVAL, "--adapter", folder / "adapter", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["loss"] == pytest.approx(float(re.findall(r"eval loss ([\d.]+)", said)[-1]), abs=1e-4)
    assert found["perplexity"] == pytest.approx(np.exp(found["loss"])) and found["tokens"] > 32


def test_a_stopped_run_goes_on_with_the_same_bits(trained, tmp_path):
    bundle = bundle_of(trained[1])

    def run(name: str, steps: int, *more: object) -> bytes:
        done = command(
            "train", bundle, "--data", TRAIN, "--steps", steps, "--lr", "1e-3", "--seed", 3, "--mask-probability", 0.3,
            "--state", tmp_path / name, "--adapter-out", tmp_path / f"{name}-adapter", *more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return (tmp_path / f"{name}-adapter" / "adapter_model.safetensors").read_bytes()

    whole = run("whole", 9)  # beyond an epoch
    run("parts", 4)
    assert run("parts", 9, "--resume") == whole
    told = command(
        "train", bundle, "--data", TRAIN, "--steps", 12, "--lr", "1e-3", "--seed", 3, "--state", tmp_path / "parts",
        "--adapter-out", tmp_path / "parts-adapter", "--resume",
    )  # fmt: skip
    assert told.returncode == 2 and "--mask-probability" in told.stderr


def test_adapter_gives_the_same_logits_in_peft(trained):
    folder, said = trained
    session = mebp.Session(bundle_of(said))
    session.load_adapter(folder / "adapter")
    settings = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert settings["task_type"] is None and "modules_to_save" not in settings
    card = (folder / "adapter" / "README.md").read_text()
    assert "pipeline_tag: fill-mask" in card and "AutoModelForMaskedLM.from_pretrained(" in card
    model = peft.PeftModel.from_pretrained(AutoModelForMaskedLM.from_pretrained(folder / "source"), folder / "adapter")
    ids = AutoTokenizer.from_pretrained(folder / "source")(texts()[0], return_tensors="pt").input_ids
    with torch.no_grad():
        expected = model.eval()(ids).logits.numpy()
    np.testing.assert_allclose(session.logits(ids.numpy()), expected, rtol=2e-4, atol=2e-4)


def test_merged_model_gives_the_same_logits(trained, tmp_path):
    folder, said = trained
    mebp.merge(bundle_of(said), folder / "adapter", tmp_path / "merged", dtype="f32")
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "merged").eval()
    session = mebp.Session(bundle_of(said))
    session.load_adapter(folder / "adapter")
    ids = np.array([[2, 9, 17, 30, 3]])
    with torch.no_grad():
        expected = model(torch.from_numpy(ids)).logits.numpy()
    np.testing.assert_allclose(session.logits(ids), expected, rtol=2e-4, atol=2e-4)


def test_labels_beyond_the_vocabulary(made):
    ids, labels, starts = encoders.batch_of(LENGTHS, SEQUENCE, task="fill-mask")
    labels[1, 0] = 333
    with pytest.raises(mebp.Error, match="label 333 at row 1, position 0 is neither -100 nor in the vocabulary of 333"):
        mebp.Session(made[1]).loss(ids, labels, starts)


def test_no_text_from_an_encoder(made):
    with pytest.raises(mebp.Error, match="predicts masked tokens and predicts no text"):
        mebp.Session(made[1]).generate([[5, 6]])
    with pytest.raises(mebp.Error, match="predicts masked tokens and predicts no text"):
        mebp.Session(made[1]).logprobs([[5, 6]])


def test_options_for_text_are_refused(made):
    onnx = made[1].parent / "model.onnx"
    with pytest.raises(mebp.Error, match="--generate-len: is not for an encoder, whose tokens see all of their sample"):
        run_mebpc(onnx, onnx.parent / "other.mebp", {"generate_len": 32})


def test_tokens_of_a_file_are_no_labels(made, tmp_path):
    np.save(tmp_path / "tokens.npy", np.zeros((3, SEQUENCE), np.int32))
    words = [find_tool("mebp-run"), made[1], "--tokens", tmp_path / "tokens.npy"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and "is for --task fill-mask, whose labels are no file's tokens" in run.stderr


def test_what_a_run_refuses(trained, tmp_path, capsys):
    bundle = bundle_of(trained[1])

    def refuse(*options: object) -> str:
        return refusal_in_process(capsys, "train", bundle, "--data", TRAIN, *options)

    assert "predicts masked tokens; leave it out, or compile a model for it" in refuse("--task", "classify")
    assert "--objective dpo is for language models, and" in refuse("--objective", "dpo")
    assert "--mask-probability is 1.5; give a number above 0 and up to 1" in refuse("--mask-probability", 1.5)
    told = refusal_in_process(capsys, "train", tmp_path, "--data", TRAIN, "--mask-probability", 0.2)
    assert "--mask-probability is for --task fill-mask; leave it out, or give that, too" in told
    told = refuse("--task", "classify", "--mask-probability", 0.2)
    assert "--mask-probability is for --task fill-mask; leave it or --task classify out" in told
    unmasked = tmp_path / "unmasked"
    encoders.save_with_tokenizer(encoders.build("bert", task="fill-mask", vocab_size=WORDS), texts(), unmasked)
    settings = json.loads((unmasked / "tokenizer_config.json").read_text())
    (unmasked / "tokenizer_config.json").write_text(json.dumps({**settings, "mask_token": None}))
    (unmasked / "special_tokens_map.json").unlink(missing_ok=True)
    told = refusal("train", unmasked, "--data", TRAIN, "--task", "fill-mask")
    assert "names no mask token, which --task fill-mask puts in place of others; add mask_token" in told


@pytest.mark.parametrize(
    "fields, expected",
    [
        (
            {"model_type": "t5"},
            "model type 't5' has an encoder and a decoder; --task fill-mask trains encoders",
        ),
        ({"model_type": "llama"}, "model type 'llama' is none of those that mebp trains to fill masks"),
        ({"model_type": "bert", "is_decoder": True}, '"is_decoder" is true, so its tokens do not see the later ones'),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_models_that_are_refused(tmp_path, capsys, fields, expected):
    assert expected in refused_export(capsys, tmp_path, fields, "fill-mask")


def test_classes_are_refused(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    told = refusal_in_process(
        capsys, "export", tmp_path, "-o", tmp_path / "out" / "model.onnx", "--task", "fill-mask", "--classes", "a,b"
    )
    assert "--classes is for models that tell classes apart, and --task fill-mask does not; leave it out" in told
