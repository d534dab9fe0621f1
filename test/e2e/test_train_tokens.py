# SPDX-License-Identifier: Apache-2.0
"""--train-tokens: rows of new tokens, trained beside LoRA, are PEFT's trainable_token_indices."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import mebp
from mebp.inspect import inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import mebp as command
from support.commands import refusal, refusal_in_process
from support.library import save_adapter_gguf
from support.pipeline import check, compare_gradients
from support.textmodel import made_once, make_tokenizer

TOKENS = ["<|tool|>", "<|end_tool|>", "<|think|>"]
FIRST = 259  # behind what make_tokenizer has
ROWS = "base_model.model.{}.token_adapter.trainable_tokens_delta"
EMBEDDING, HEAD = ROWS.format("model.embed_tokens"), ROWS.format("lm_head")
# The tables of the first two have no rows left, and get some; those of the others have.
CASES = {
    "tied": ("llama", {"vocab_size": FIRST, "tie_word_embeddings": True}),
    "untied": ("llama", {"vocab_size": FIRST}),
    "tied, rows left": ("qwen2", {"vocab_size": 300}),
    "untied, one row left": ("llama", {"vocab_size": FIRST + 1}),
    "tied, scaled and capped": (
        "gemma2",
        {"vocab_size": FIRST, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}
pytestmark = pytest.mark.usefixtures("one_cache")
EXACT = {"weights": "f32", "embedding_weights": "f32", "precision": "f32"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return made_once(CASES, tmp_path_factory)


@pytest.fixture(scope="module")
def exports(sources, tmp_path_factory):
    made = {}

    def make(name: str) -> Path:
        if name not in made:
            onnx = tmp_path_factory.mktemp("export") / "model.onnx"
            made[name] = mebp.export(sources(name)[1], onnx, seq_len=24, batch=2, train_tokens=TOKENS)
        return made[name]

    return make


@pytest.fixture
def data(tmp_path) -> Path:
    """With all of the new tokens."""
    samples = [{"prompt": f"Lamp {index}: ", "completion": "<|think|>is<|tool|>lit<|end_tool|>"} for index in range(6)]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def compiled(onnx: Path, folder: Path, **options: object) -> Path:
    mebp.compile(onnx, folder / "model.mebp", **options)
    return folder / "model.mebp"


def changed(session: mebp.Session) -> mebp.Session:
    """As if something was learned already, also of the tokens."""
    randomise_adapter(session)
    generator = np.random.default_rng(1)
    rows = {key: value for key, value in session.trainables().items() if "token_adapter" in key}
    session.set_trainables(
        {key: value + generator.normal(0, 0.1, value.shape).astype(np.float32) for key, value in rows.items()}
    )
    return session


def grown(model: torch.nn.Module) -> torch.nn.Module:
    larger = copy.deepcopy(model)
    larger.resize_token_embeddings(max(model.config.vocab_size, FIRST + len(TOKENS)), mean_resizing=False)
    return larger


def some_ids(batch: int = 2, sequence: int = 24) -> np.ndarray:
    """Every third is new."""
    generator = np.random.default_rng(2)
    ids = generator.integers(0, FIRST, (batch, sequence), dtype=np.int32)
    ids[:, ::3] = generator.integers(FIRST, FIRST + len(TOKENS), ids[:, ::3].shape)
    return ids


@pytest.mark.parametrize(
    "options",
    [
        EXACT,
        {"weights": "int4", "precision": "f32"},
        {"weights": "bf16", "embedding_weights": "bf16", "precision": "f32", "chunk_size": 7, "loss_rows": 5,
         "loss_columns": 32},
        EXACT | {"lora_layers": "last:1"},  # the backward goes on to the embedding
    ],
    ids=["f32", "int4", "chunks and tiles", "the last layer's adapters"],
)  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_peft_in_float64(sources, exports, tmp_path, show, name, options):
    bundle = compiled(exports(name), tmp_path, **options)
    session = changed(mebp.Session(bundle))
    result = compare_gradients(bundle, session, grown(sources(name)[0]), some_ids(), some_ids())
    show(f"{name}: {result}")
    check(result)
    _, gradients = session.loss_and_gradients(some_ids(), some_ids())
    assert {EMBEDDING, HEAD} & gradients.keys() == ({EMBEDDING, HEAD} if "untied" in name else {EMBEDDING})
    assert all(np.abs(gradients[key]).max(axis=1).min() > 0 for key in gradients if "token_adapter" in key)


def test_gradients_in_bf16(sources, exports, tmp_path, show):
    bundle = compiled(exports("tied"), tmp_path, weights="int4", precision="bf16")
    session = changed(mebp.Session(bundle))
    model = grown(sources("tied")[0])
    result = compare_gradients(
        bundle, session, model, some_ids(), some_ids(), torch.bfloat16, adapter_dtype=torch.float32
    )
    show(str(result))
    check(result)


def test_verify_agrees(exports, tmp_path):
    for name in ("tied", "untied"):
        (tmp_path / name).mkdir()
        result = mebp.verify(compiled(exports(name), tmp_path / name, **EXACT))
        assert result.agrees, str(result)


@pytest.mark.parametrize("name", CASES)
def test_rows_begin_as_the_mean_of_the_others(sources, exports, tmp_path, name):
    """In the bundle, in the session, and in what base_weights gives; all other rows are the model's."""
    session = mebp.Session(compiled(exports(name), tmp_path, **EXACT))
    weights = session.base_weights()
    assert not any("token_adapter" in key for key in weights)
    own = sources(name)[0].state_dict()
    for key, table in (("model.embed_tokens.weight", EMBEDDING), ("lm_head.weight", HEAD)):
        before = own[key].numpy()
        mean = before[:FIRST].mean(axis=0, dtype=np.float64)
        after = weights[key][FIRST : FIRST + len(TOKENS)]
        np.testing.assert_allclose(after, np.tile(mean, (len(TOKENS), 1)), rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(weights[key][:FIRST], before[:FIRST])
        np.testing.assert_array_equal(weights[key][FIRST + len(TOKENS) :], before[FIRST + len(TOKENS) :])
        if table in session.trainables():
            np.testing.assert_array_equal(session.trainables()[table], after)


def train(model: Path, data: Path, **options: object) -> mebp.Session:
    options = {"steps": 3, "lr": 1e-2, "train_tokens": TOKENS, "progress": False, **EXACT, **options}
    return mebp.train(model, data, **options).session


@pytest.mark.parametrize("name", CASES)
def test_peft_and_the_merged_model_compute_the_same(sources, data, tmp_path, name):
    source, adapter, ids = sources(name)[1], tmp_path / "adapter", some_ids(1, 20)
    session = train(source, data, adapter_out=adapter)
    logits = session.logits(ids)
    tokenizer = AutoTokenizer.from_pretrained(adapter)
    assert tokenizer.convert_tokens_to_ids(TOKENS) == [FIRST, FIRST + 1, FIRST + 2]
    assert tokenizer.decode(tokenizer("a<|tool|>").input_ids, skip_special_tokens=True) == "a<|tool|>"

    base = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager")
    base.resize_token_embeddings(len(tokenizer))
    adapted = PeftModel.from_pretrained(base, adapter).eval()
    merged = mebp.merge(session.path, adapter, tmp_path / "merged")
    whole = AutoModelForCausalLM.from_pretrained(
        tmp_path / "merged", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        by_peft, by_merged = (each(torch.from_numpy(ids).long()).logits.numpy() for each in (adapted, whole))
    assert relative_error(logits[..., : len(tokenizer)], by_peft) < 1e-5
    assert relative_error(logits, by_merged) < 1e-5
    assert whole.config.vocab_size == session.vocabulary and "model.embed_tokens.weight" in merged.changes
    assert len(AutoTokenizer.from_pretrained(tmp_path / "merged")) == len(tokenizer)

    again = mebp.Session(session.path)
    again.load_adapter(adapter)
    for key, values in session.trainables().items():
        np.testing.assert_array_equal(again.trainables()[key], values)


def test_rows_are_learned_and_all_others_stay(sources, data):
    session = train(sources("untied")[1], data)
    first, last = mebp.Session(session.path).trainables(), session.trainables()
    for key in (EMBEDDING, HEAD):
        assert (np.abs(last[key] - first[key]).max(axis=1) > 1e-3).all()
    frozen = sources("untied")[0].state_dict()["lm_head.weight"].numpy()
    np.testing.assert_array_equal(session.base_weights()["lm_head.weight"][:FIRST], frozen)


def test_settings_are_pefts(sources, data, tmp_path):
    train(sources("untied")[1], data, adapter_out=tmp_path / "adapter", steps=1)
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    ids = list(range(FIRST, FIRST + len(TOKENS)))
    assert settings["trainable_token_indices"] == {"embed_tokens": ids, "lm_head": ids}
    assert "modules_to_save" not in settings
    card = (tmp_path / "adapter" / "README.md").read_text()
    assert 'base.resize_token_embeddings(len(AutoTokenizer.from_pretrained("ADAPTER")))' in card
    assert "mebp merge ADAPTER -o OUT.gguf" in card and "adapter convert" not in card
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert tensors[EMBEDDING].shape == tensors[HEAD].shape == (len(TOKENS), 96)


def test_a_resumed_run_has_the_same_bits(sources, data, tmp_path):
    source = sources("tied")[1]
    whole = train(source, data, steps=4, accumulate=2, state=tmp_path / "whole")
    train(source, data, steps=4, accumulate=2, state=tmp_path / "state", callback=lambda step: step.step == 2)
    rest = train(source, data, steps=4, accumulate=2, state=tmp_path / "state", resume=True)
    for key, values in whole.trainables().items():
        np.testing.assert_array_equal(rest.trainables()[key], values, err_msg=key)


def test_rows_have_a_learning_rate_of_their_own(sources, data, tmp_path):
    """A first step moves them as a run at that rate would, and LoRA as one without it, bit for bit."""
    source, how = sources("untied")[1], {"steps": 1, "schedule": "linear", "warmup": 0}
    slow, fast = (train(source, data, lr=rate, **how).trainables() for rate in (1e-3, 1e-2))
    both = train(source, data, lr=1e-3, embedding_lr=1e-2, **how).trainables()
    for key, values in both.items():
        np.testing.assert_array_equal(values, (fast if "token_adapter" in key else slow)[key], err_msg=key)
        assert (slow[key] != fast[key]).any() or "lora_A" in key


def test_a_whole_embedding_has_a_learning_rate_of_its_own(sources, data):
    how = {"train_tokens": None, "train": "full", "train_targets": "*", "steps": 1}
    source = sources("untied")[1]
    slow, fast = (train(source, data, lr=rate, **how).trainables() for rate in (1e-4, 1e-3))
    both = train(source, data, lr=1e-4, embedding_lr=1e-3, **how).trainables()
    tables = {"model.embed_tokens.weight", "lm_head.weight"}
    assert tables < both.keys()
    for key, values in both.items():
        np.testing.assert_array_equal(values, (fast if key in tables else slow)[key], err_msg=key)


def test_such_a_rate_without_such_rows_is_refused(sources, data):
    source = sources("untied")[1]
    advice = (
        "--embedding-lr is of rows of new tokens, or of an embedding that is trained whole; give --train-tokens or "
    )
    with pytest.raises(mebp.Error, match=f"^{advice}--train full, too$"):
        train(source, data, train_tokens=None, embedding_lr=1e-3)
    plain = train(source, data, train_tokens=None, steps=1).path
    with pytest.raises(mebp.Error) as refused:
        mebp.train(plain, data, embedding_lr=1e-3, progress=False)
    assert str(refused.value) == (
        "--embedding-lr: the bundle trains no embedding and no rows of new tokens, which a learning rate of their own "
        "would be for; leave it out"
    )
    with pytest.raises(mebp.Error, match="^--embedding-lr: mezo moves all parameters by one rate; leave out that of "):
        train(source, data, optimizer="mezo", embedding_lr=1e-3)
    with pytest.raises(mebp.Error, match="^--embedding-lr is -1; give a number of at least 0$"):
        train(source, data, embedding_lr=-1.0)


def test_mezo_changes_them(sources, data):
    session = train(sources("tied")[1], data, optimizer="mezo", steps=1)
    before = mebp.Session(session.path, forward_only=True).trainables()[EMBEDDING]
    assert (session.trainables()[EMBEDDING] != before).any()


def test_text_is_written_by_the_folder_alone(sources, data, tmp_path):
    """And, as if it were a stranger's, with --base, by the tokens that its own tokenizer has."""
    source, adapter = sources("tied, rows left")[1], tmp_path / "adapter"
    session = train(source, data, adapter_out=adapter, steps=1)
    said = command("generate", adapter, "--prompt", "Lamp", "--max-new-tokens", "3")
    assert said.returncode == 0, said.stderr
    (adapter / "mebp.json").unlink()
    measured = command("eval", adapter, "--base", source, "--data", data)
    assert measured.returncode == 0, measured.stderr
    assert inspect(session.path)["trainables"][0]["rows_of"]


def test_what_the_model_cannot_have_is_refused(sources, exports, tmp_path, data):
    """Each in a line that names it, and nothing is left half-written."""
    source, onnx = sources("tied")[1], tmp_path / "m" / "model.onnx"
    has = (
        f"--train-tokens: {source}/tokenizer.json has '<|im_end|>' already, as token 258; leave it out, for new tokens "
    )
    has += "alone have rows of their own to train"
    said = refusal("train", source, "--data", data, "--steps", "1", "--train-tokens", "<|tool|>,<|im_end|>")
    assert said == f"mebp: {has}"
    with pytest.raises(mebp.Error) as refused:
        mebp.export(source, onnx, train_tokens="<|im_end|>")
    assert str(refused.value) == has and not onnx.parent.exists()
    with pytest.raises(mebp.Error) as refused:
        mebp.compile(exports("tied"), tmp_path / "model.mebp", lora=mebp.LoRA(targets=["q_proj", "lm_head"]))
    assert str(refused.value) == (
        "--train-tokens and --lora-targets both adapt the head 'lm_head'; leave it out of --lora-targets"
    )
    assert not (tmp_path / "model.mebp").exists()


def test_options_that_do_not_go_together_are_refused(sources, exports, data, tmp_path, capsys):
    bundle = compiled(exports("tied"), tmp_path, **EXACT)
    of_model = ("train", sources("tied")[1], "--data", data, "--steps", "1", "--train-tokens")
    capsys.readouterr()

    def refusal(*arguments: object) -> str:
        return refusal_in_process(capsys, *arguments).rstrip("\n")

    wrong = "mebp: --train-tokens has {!r}; give different tokens, such as '<|tool|>,<|end_tool|>'"
    for given, named in (("", ""), ("<|a|>,<|a|>", "<|a|>"), ("<|a|>, b", " b"), ("<|a|>,-b", "-b")):
        assert refusal(*of_model, given) == wrong.format(named)
    beside = "mebp: --train-tokens trains rows of new tokens beside LoRA, which {} is not; leave one of them out"
    assert refusal(*of_model, "<|a|>", "--train", "full") == beside.format("--train full")
    remote = ("--adapter-kind", "private-lora")
    assert refusal(*of_model, "<|a|>", *remote) == beside.format("--adapter-kind private-lora")
    assert refusal(*of_model, "<|a|>", "--task", "classify") == (
        "mebp: --train-tokens is for language models; leave it or --task classify out"
    )
    assert refusal("train", bundle, "--data", data, "--train-tokens", "<|a|>") == (
        f"mebp: --train-tokens is for a model, and {bundle} is compiled already; give the model, or export it again "
        "with mebp export --train-tokens"
    )
    # mebpc's own, of a bundle that somebody compiles.
    with pytest.raises(
        mebp.Error, match="^--train-tokens trains rows of new tokens beside LoRA, which --train full is"
    ):
        mebp.compile(exports("tied"), tmp_path / "full.mebp", train="full", weights="f32")
    with pytest.raises(mebp.Error, match="beside LoRA, which --adapter private-lora is not; leave one of them out$"):
        mebp.compile(exports("tied"), tmp_path / "remote.mebp", adapter=mebp.PrivateLoRA())


def test_a_list_of_tokens_is_of_the_embedding(sources, data, tmp_path):
    """As PEFT may have it."""
    session = train(sources("tied")[1], data, adapter_out=tmp_path, steps=1)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    (ids,) = settings["trainable_token_indices"].values()
    (tmp_path / "adapter_config.json").write_text(json.dumps({**settings, "trainable_token_indices": ids}))
    session.load_adapter(tmp_path)


def test_an_adapter_of_other_tokens_is_refused(sources, data, tmp_path):
    """Rows would be taken for those of others."""
    source, adapter = sources("tied")[1], tmp_path / "adapter"
    train(source, data, adapter_out=adapter, steps=1)
    plain, fewer = (
        train(source, data, train_tokens=None, steps=1),
        train(source, data, train_tokens=TOKENS[:2], steps=1),
    )
    file = adapter / "adapter_config.json"
    given = '{"embed_tokens":[259,260,261]}'
    for session, trained in ((plain, "no rows of tokens"), (fewer, '{"embed_tokens":[259,260]}')):
        with pytest.raises(mebp.Error) as refused:
            session.load_adapter(adapter)
        assert str(refused.value) == (
            f"{file}: trainable_token_indices is {given}, the bundle trains {trained}; use an adapter of the same "
            "--train-tokens"
        )
    train(source, data, train_tokens=None, adapter_out=tmp_path / "plain", steps=1)
    with pytest.raises(mebp.Error, match="trainable_token_indices is not given, the bundle trains"):
        fewer.load_adapter(tmp_path / "plain")


def test_other_forms_have_no_such_rows(sources, data, tmp_path):
    adapter = tmp_path / "adapter"
    train(sources("tied")[1], data, adapter_out=adapter, steps=1)
    for form, output in (("mlx", tmp_path / "mlx"), ("gguf", tmp_path / "adapter.gguf")):
        with pytest.raises(mebp.Error) as refused:
            mebp.convert_adapter(adapter, output, form)
        assert not output.exists()
        assert str(refused.value) == (
            f"{adapter / 'adapter_config.json'}: has rows of new tokens (trainable_token_indices), which no other form "
            "has; mebp merge writes the model with them"
        )


def test_the_library_writes_no_gguf_adapter_of_such_rows(exports, tmp_path):
    bundle, file = compiled(exports("tied"), tmp_path, **EXACT), tmp_path / "adapter.gguf"
    mebp.Session(bundle).save_adapter(tmp_path / "adapter")
    with pytest.raises(mebp.Error) as refused:
        save_adapter_gguf(bundle, tmp_path / "adapter", file)
    assert str(refused.value) == (
        f"{file}: trains rows of new tokens ('base_model.model.model.embed_tokens.token_adapter."
        "trainable_tokens_delta'), which no other form has; mebp merge writes the model with them"
    )
    assert not file.exists()


def test_a_model_with_other_numbers_for_each_token_is_refused(tmp_path):
    models.save(models.build("phi", vocab_size=FIRST), tmp_path / "phi")
    make_tokenizer(tmp_path / "phi")
    with pytest.raises(mebp.Error) as refused:
        mebp.export(tmp_path / "phi", tmp_path / "m" / "model.onnx", train_tokens=["<|a|>"])
    assert not (tmp_path / "m").exists()
    assert str(refused.value) == (
        "phi: 'lm_head.bias' has a number for each token, too, and --train-tokens adds rows to the embedding and "
        "the head alone; leave it out"
    )
