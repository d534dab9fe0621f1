# SPDX-License-Identifier: Apache-2.0
"""--train-tokens all: the embedding and the head, trained whole beside LoRA, are PEFT's modules_to_save."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.inspect import inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support.commands import mebp as command
from support.commands import refusal_in_process
from support.pipeline import check, compare_gradients
from support.textmodel import made_once

ROWS = 259  # of make_tokenizer
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
CASES = {
    "tied": ("llama", {"vocab_size": ROWS, "tie_word_embeddings": True}),
    "untied": ("llama", {"vocab_size": ROWS}),
    "tied, scaled and capped": (
        "gemma2",
        {"vocab_size": ROWS, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}
pytestmark = pytest.mark.usefixtures("one_cache")
EXACT = {"weights": "f32", "precision": "f32"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return made_once(CASES, tmp_path_factory)


@pytest.fixture(scope="module")
def exports(sources, tmp_path_factory):
    made = {}

    def make(name: str) -> Path:
        if name not in made:
            onnx = tmp_path_factory.mktemp("export") / "model.onnx"
            made[name] = mebp.export(sources(name)[1], onnx, seq_len=24, batch=2, train_tokens="all")
        return made[name]

    return make


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "data.jsonl"
    samples = [{"prompt": f"Lamp {index}: ", "completion": "is lit"} for index in range(6)]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def compiled(onnx: Path, folder: Path, **options: object) -> Path:
    mebp.compile(onnx, folder / "model.mebp", **options)
    return folder / "model.mebp"


def changed(session: mebp.Session) -> mebp.Session:
    """As if something was learned already, also of the tables."""
    randomise_adapter(session)
    generator = np.random.default_rng(1)
    tables = {key: value for key, value in session.trainables().items() if key in (EMBEDDING, HEAD)}
    session.set_trainables(
        {key: value + generator.normal(0, 0.02, value.shape).astype(np.float32) for key, value in tables.items()}
    )
    return session


def some_ids(batch: int = 2, sequence: int = 24) -> np.ndarray:
    return np.random.default_rng(2).integers(0, ROWS, (batch, sequence), dtype=np.int32)


def train(model: Path, data: Path, **options: object) -> mebp.Session:
    options = {"steps": 3, "lr": 1e-2, "train_tokens": ["all"], "progress": False, **EXACT, **options}
    return mebp.train(model, data, **options).session


@pytest.mark.parametrize(
    "options",
    [
        EXACT,
        {"weights": "int4", "precision": "f32"},
        {"weights": "bf16", "precision": "f32", "chunk_size": 7, "loss_rows": 5, "loss_columns": 32},
    ],
    ids=["f32", "int4", "chunks and tiles"],
)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_float64(sources, exports, tmp_path, show, name, options):
    bundle = compiled(exports(name), tmp_path, **options)
    session = changed(mebp.Session(bundle))
    result = compare_gradients(bundle, session, sources(name)[0], some_ids(), some_ids())
    show(f"{name}: {result}")
    check(result)
    _, gradients = session.loss_and_gradients(some_ids(), some_ids())
    assert len({EMBEDDING, HEAD} & gradients.keys()) == (2 if name == "untied" else 1)
    assert any("lora_B" in key for key in gradients)


def test_gradients_in_bf16(sources, exports, tmp_path, show):
    bundle = compiled(exports("tied"), tmp_path, weights="int4", precision="bf16")
    session = changed(mebp.Session(bundle))
    result = compare_gradients(
        bundle, session, sources("tied")[0], some_ids(), some_ids(), torch.bfloat16, adapter_dtype=torch.float32
    )
    show(str(result))
    check(result)


def test_verify_agrees(exports, tmp_path):
    result = mebp.verify(compiled(exports("untied"), tmp_path, **EXACT))
    assert result.agrees, str(result)


@pytest.mark.parametrize("name", CASES)
def test_peft_and_the_merged_model_compute_the_same(sources, data, tmp_path, name):
    source, adapter, ids = sources(name)[1], tmp_path / "adapter", some_ids(1, 20)
    session = train(source, data, adapter_out=adapter)
    logits = session.logits(ids)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    assert settings["modules_to_save"] == (["embed_tokens", "lm_head"] if name == "untied" else ["embed_tokens"])
    assert settings.get("ensure_weight_tying", False) == (name != "untied")
    tensors = load_file(adapter / "adapter_model.safetensors")
    assert tensors[f"base_model.model.{EMBEDDING}"].shape == (ROWS, 96)

    base = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager")
    adapted = PeftModel.from_pretrained(base, adapter).eval()
    mebp.merge(session.path, adapter, tmp_path / "merged")
    whole = AutoModelForCausalLM.from_pretrained(
        tmp_path / "merged", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        by_peft, by_merged = (each(torch.from_numpy(ids).long()).logits.numpy() for each in (adapted, whole))
        with adapted.disable_adapter():
            by_base = adapted(torch.from_numpy(ids).long()).logits
    assert relative_error(logits, by_peft) < 1e-5
    assert relative_error(logits, by_merged) < 1e-5
    assert relative_error(logits, by_base.numpy()) > 1e-3

    again = mebp.Session(session.path, return_gradients=True)
    again.load_adapter(adapter)
    next_ids = torch.from_numpy(ids[:, 1:, None]).long()
    expected = by_base[:, :-1].log_softmax(-1).gather(-1, next_ids)[..., 0].numpy()
    assert relative_error(again.logprobs(ids, adapter=False), expected) < 1e-5
    for key, values in session.trainables().items():
        np.testing.assert_array_equal(again.trainables()[key], values)


def test_every_row_is_learned_and_the_base_stays(sources, data):
    session = train(sources("untied")[1], data)
    own = sources("untied")[0].state_dict()
    assert (np.abs(session.trainables()[HEAD] - own[HEAD].numpy()).max(axis=1) > 1e-3).all()
    np.testing.assert_array_equal(session.base_weights()[HEAD], own[HEAD].numpy())


def test_a_table_is_stored_as_it_can_be_changed(exports, tmp_path):
    """In f32, whatever is said of others; in bf16 where it is named."""
    usual = {each["name"]: each["storage"] for each in inspect(compiled(exports("untied"), tmp_path))["weights"]}
    assert (usual[EMBEDDING], usual[HEAD]) == ("f32", "f32")
    assert usual["model.layers.0.mlp.up_proj.weight"] == "int4"
    (tmp_path / "named").mkdir()
    rules = {"lm_head": "bf16", "model.embed_tokens": "bf16"}
    named = inspect(compiled(exports("untied"), tmp_path / "named", weights_for=rules))["weights"]
    assert {each["storage"] for each in named if each["name"] in (EMBEDDING, HEAD)} == {"bf16"}


def test_a_resumed_run_has_the_same_bits(sources, data, tmp_path):
    source = sources("tied")[1]
    whole = train(source, data, steps=4, accumulate=2, state=tmp_path / "whole")
    train(source, data, steps=4, accumulate=2, state=tmp_path / "state", callback=lambda step: step.step == 2)
    rest = train(source, data, steps=4, accumulate=2, state=tmp_path / "state", resume=True)
    for key, values in whole.trainables().items():
        np.testing.assert_array_equal(rest.trainables()[key], values, err_msg=key)


def test_tables_have_a_learning_rate_of_their_own(sources, data):
    """A first step moves them as a run at that rate would, and LoRA as one without it, bit for bit."""
    source, how = sources("untied")[1], {"steps": 1, "schedule": "linear", "warmup": 0}
    slow, fast = (train(source, data, lr=rate, **how).trainables() for rate in (1e-3, 1e-2))
    both = train(source, data, lr=1e-3, embedding_lr=1e-2, **how).trainables()
    for key, values in both.items():
        np.testing.assert_array_equal(values, (fast if key in (EMBEDDING, HEAD) else slow)[key], err_msg=key)


def test_a_reference_is_the_base_without_them(sources, tmp_path):
    """DPO begins at ln 2, and a second step's reference is still the first one's."""
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"prompt": "Lamp: ", "chosen": "is lit", "rejected": "is out"}\n' * 4)
    records = mebp.train(sources("tied")[1], pairs, objective="dpo", train_tokens=["all"], steps=3, lr=1e-3,
                         progress=False, **EXACT).records  # fmt: skip
    assert records[0].loss == pytest.approx(np.log(2), abs=1e-6)
    assert records[2].loss < records[1].loss < records[0].loss


def test_text_is_written_by_the_folder_alone(sources, data, tmp_path):
    """And, as if it were a stranger's, with --base."""
    source, adapter = sources("tied")[1], tmp_path / "adapter"
    train(source, data, adapter_out=adapter, steps=1)
    said = command("generate", adapter, "--prompt", "Lamp", "--max-new-tokens", "3")
    assert said.returncode == 0, said.stderr
    (adapter / "mebp.json").unlink()
    measured = command("eval", adapter, "--base", source, "--data", data)
    assert measured.returncode == 0, measured.stderr


def test_what_does_not_go_together_is_refused(sources, exports, data, tmp_path, capsys):
    given = ["train", sources("untied")[1], "--data", data, "--train-tokens"]
    assert refusal_in_process(capsys, *given, "all,<|a|>") == (
        "mebp: --train-tokens all trains every row that the model has, and new tokens get rows of their own; give one "
        "of the two\n"
    )
    assert refusal_in_process(capsys, *given, "all", "--train", "full").startswith("mebp: --train-tokens trains rows")
    with pytest.raises(mebp.Error, match="--lora-targets: 'lm_head' matches no linear layer; there are"):
        mebp.compile(exports("untied"), tmp_path / "m.mebp", lora=mebp.LoRA(targets=["q_proj", "lm_head"]))
    assert not (tmp_path / "m.mebp").exists()


def test_other_forms_have_no_tables(sources, data, tmp_path):
    adapter = tmp_path / "adapter"
    train(sources("tied")[1], data, adapter_out=adapter, steps=1)
    for form, output in (("mlx", tmp_path / "mlx"), ("gguf", tmp_path / "adapter.gguf")):
        with pytest.raises(mebp.Error, match="mebp merge writes the model with them"):
            mebp.convert_adapter(adapter, output, form)
        assert not output.exists()
