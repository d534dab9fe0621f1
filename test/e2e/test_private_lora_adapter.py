# SPDX-License-Identifier: Apache-2.0
"""Adapters B M A in a run, in files, and in other tools."""

import copy
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.compiler import check_options
from mebp.extension import load_runtime
from mebp.inspect import inspect
from mebp.remote_adapters import factors_of, listed_kinds
from mebp.tools import find_tool
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.commands import TIMEOUT
from support.commands import mebp as run_mebp
from support.pipeline import make_bundle
from support.textmodel import make_text_bundle

SEQUENCE, BATCH = 32, 4
CHOSEN = {"rank_down": 5, "rank_up": 7}
TAKING_UP = listed_kinds("rank-up")
TARGETS = {"gpt2": ["c_attn"], "phi3": ["qkv_proj"]}


def make(model, folder: Path, chosen: dict | None = None, **options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    adapter = mebp.PrivateLoRA(**{**CHOSEN, **(chosen or {})})
    return make_bundle(model, folder, **{"seq_len": SEQUENCE, "batch": BATCH, "adapter": adapter, **options})


def save_random(bundle: Path, adapter: Path) -> mebp.Session:
    session = mebp.Session(bundle)
    randomise_adapter(session, scale=2.0)
    session.save_adapter(adapter)
    return session


@pytest.fixture(scope="module")
def llama():
    return models.build("llama")


@pytest.fixture(scope="module")
def bundle(llama, tmp_path_factory) -> Path:
    return make(llama, tmp_path_factory.mktemp("private"))


@pytest.fixture
def adapter(bundle, tmp_path) -> Path:
    save_random(bundle, tmp_path / "adapter")
    return tmp_path / "adapter"


def refused(bundle: Path, adapter: Path) -> str:
    """Why a fresh session does not take it, which leaves the session as it was."""
    session = mebp.Session(bundle)
    with pytest.raises(mebp.Error) as error:
        session.load_adapter(adapter)
    assert not any(value.any() for value in session.trainables().values())
    return str(error.value)


def test_it_comes_back_bitwise_and_is_lora_to_others(bundle, adapter):
    session, again = mebp.Session(bundle), mebp.Session(bundle)
    randomise_adapter(session, scale=2.0)
    again.load_adapter(adapter)
    m, factors = session.trainables(), factors_of(inspect(bundle), session.frozen_factors())
    assert all(np.array_equal(again.trainables()[key], m[key]) for key in m)
    lora = load_file(adapter / "adapter_model.safetensors")
    assert len(lora) == 2 * len(m)
    for key, (a, b) in factors.items():
        assert np.array_equal(lora[key.replace("lora_M", "lora_A")], a)
        assert relative_error(lora[key.replace("lora_M", "lora_B")], b.astype(np.float64) @ m[key]) < 1e-7
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["target_modules"]) == (5, 5, ["q_proj", "k_proj", "v_proj"])


@pytest.mark.parametrize(
    ("family", "chosen"),
    [("llama", {}), ("llama", {"layers": range(1, 2), "share_a": True}), ("gpt2", {}), ("phi3", {}), ("qwen2", {})],
    ids=str,
)
def test_peft_and_merge_compute_the_same(tmp_path, show, family, chosen):
    model = models.build(family)
    models.save(model, tmp_path / "source")
    targets = {"targets": TARGETS[family]} if family in TARGETS else {}
    bundle = make(tmp_path / "source", tmp_path, {**chosen, **targets}, batch=1)
    session = save_random(bundle, tmp_path / "adapter")
    ids = models.token_ids(model, 1, 27)
    found = session.logits(ids.numpy())
    base = copy.deepcopy(model)
    load_weights(base, session.base_weights())
    with torch.no_grad():
        untrained = base(input_ids=ids).logits.numpy()
        expected = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()(input_ids=ids).logits.numpy()
    show(f"private-lora as PEFT reads it, {family}: logits within {np.abs(found - expected).max():.1e}, "
         f"moved by {np.abs(expected - untrained).max():.1e}")  # fmt: skip
    assert np.abs(expected - untrained).max() > 1e-2
    assert np.abs(found - expected).max() < 1e-3
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged")
    names = {name: values.shape for name, values in load_file(tmp_path / "source" / "model.safetensors").items()}
    assert {name: v.shape for name, v in load_file(tmp_path / "merged" / "model.safetensors").items()} == names
    with torch.no_grad():
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").float()(input_ids=ids).logits.numpy()
    assert relative_error(found, merged) < 1e-4


def test_a_rank_is_refused_before_there_is_a_model():
    with pytest.raises(mebp.Error, match="--rank-up 0: give a rank of at least 1"):
        check_options({"adapter": "private-lora", "rank_up": 0})


def test_a_scale_that_such_an_adapter_has_not_is_refused(bundle, adapter):
    file = adapter / "adapter_config.json"
    config = json.loads(file.read_text())
    scale = config["lora_alpha"]
    file.write_text(json.dumps(config | {"lora_alpha": 3.0}))
    assert refused(bundle, adapter) == (
        f"{file}: lora_alpha is 3, and such an adapter has {scale:g}; choose another one"
    )
    file.write_text(json.dumps(config))


def test_other_forms(bundle, adapter, tmp_path):
    lora = load_file(adapter / "adapter_model.safetensors")
    for form, written in (("mlx", tmp_path / "mlx"), ("gguf", tmp_path / "adapter.gguf")):
        mebp.convert_adapter(adapter, written, form, base=bundle)
        mebp.convert_adapter(written, tmp_path / f"{form}-peft", "peft", base=bundle)
        back = load_file(tmp_path / f"{form}-peft" / "adapter_model.safetensors")
        assert back.keys() == lora.keys() and all(np.array_equal(back[key], lora[key]) for key in lora), form


def test_another_bundles_adapter_is_refused(llama, bundle, adapter, tmp_path):
    (adapter / "private_lora.safetensors").rename(tmp_path / "kept")
    assert refused(bundle, adapter) == (
        f"{adapter}: has no private_lora.safetensors, of which a bundle of --adapter private-lora reads its M; choose "
        "an adapter that such a bundle wrote"
    )
    (tmp_path / "kept").rename(adapter / "private_lora.safetensors")
    seeded = make(llama, tmp_path / "seed", seed=7)
    assert refused(seeded, adapter) == (
        f"{adapter}/private_lora.safetensors: was trained with A and B of seed 0, the bundle's are of seed 7; compile "
        "with --seed 0 or choose another adapter"
    )
    shared = make(llama, tmp_path / "shared", {"share_a": True})
    assert refused(shared, adapter) == (
        f"{adapter}/private_lora.safetensors: was trained with other A and B than the bundle's; compile as its bundle "
        "was, with or without --share-a, or choose another adapter"
    )
    wider = make(llama, tmp_path / "down", {"rank_down": 6})
    assert refused(wider, adapter) == (
        f"{adapter}/adapter_config.json: r is 5, the bundle was compiled for 6; compile with --rank-down 5 or choose "
        "another adapter"
    )
    higher = make(llama, tmp_path / "up", {"rank_up": 6})
    assert "lora_M.weight' is 7 x 5, the bundle's is 6 x 5" in refused(higher, adapter)
    fewer = make(llama, tmp_path / "fewer", {"layers": range(1)})
    assert "which this bundle does not train" in refused(fewer, adapter)


def test_a_lora_adapter_takes_the_place_of_one(llama, bundle, adapter, tmp_path):
    """M would be of another adapter than what lies beside it."""
    lora = mebp.LoRA(rank=5, alpha=5, targets=["q_proj", "k_proj", "v_proj"])
    other = make_bundle(llama, tmp_path, seq_len=SEQUENCE, batch=BATCH, lora=lora)
    config = (adapter / "adapter_config.json").read_text()
    session = mebp.Session(other)
    session.save_adapter(adapter)
    assert (adapter / "adapter_config.json").read_text() == config, "the settings are equal, so that M alone tells"
    assert {path.name for path in adapter.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    save_random(bundle, adapter)
    assert (adapter / "private_lora.safetensors").exists()


def test_a_run_that_keeps_all_begins_anew(data, tmp_path):
    bundle, kept = make_text_bundle(tmp_path, adapter=mebp.PrivateLoRA(**CHOSEN)), tmp_path / "kept"
    for steps in (2, 1):
        mebp.train(
            bundle, data, steps=steps, adapter_out=kept, keep="all", save_every=1, overwrite=True, progress=False
        )
    assert [folder.name for folder in kept.iterdir() if folder.is_dir()] == ["step-1"]


@pytest.mark.parametrize("options", [{}, {"clip": 0.002}])
def test_accumulation_and_clipping_equal_one_batch(llama, bundle, options):
    whole, parts = (
        mebp.Session(bundle, optimizer="sgd", lr=1.0, accumulate=accumulate, return_gradients=False, **options)
        for accumulate in (False, True)
    )
    for session in (whole, parts):
        randomise_adapter(session, scale=2.0)
    before = whole.trainables()
    ids = models.token_ids(llama, BATCH, 24).numpy()
    expected = whole.step(ids, ids)
    result = parts.step([ids[:1], ids[1:]], [ids[:1], ids[1:]])
    assert result.grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    ours, theirs = (
        np.concatenate([(session.trainables()[key] - before[key]).ravel() for key in before])
        for session in (parts, whole)
    )
    assert relative_error(ours, theirs) < 1e-4 and np.abs(theirs).max() > 0
    if options:
        assert expected.grad_norm > options["clip"]
        assert np.linalg.norm(theirs.astype(np.float64)) == pytest.approx(options["clip"], rel=1e-3)


@pytest.mark.parametrize("optimizer", ["adamw", "adamw8bit", "mezo"])
def test_a_killed_run_goes_on_bitwise(bundle, tmp_path, optimizer):
    np.save(tmp_path / "tokens.npy", np.random.default_rng(0).integers(0, 333, (16, SEQUENCE), dtype=np.int32))
    command = [find_tool("mebp-run"), bundle, "--tokens", tmp_path / "tokens.npy", "--optimizer", optimizer,
               "--steps", 60, "--save-every", 1]  # fmt: skip

    def start(name: str, *more: object) -> subprocess.Popen:
        given = [*command, "--state", tmp_path / name, "--adapter-out", tmp_path / f"{name}-adapter", *more]
        return subprocess.Popen([*map(str, given)], stdout=subprocess.PIPE, text=True)

    whole = start("whole")
    whole.communicate(timeout=TIMEOUT)
    assert whole.returncode == 0
    cut = start("cut")
    for _ in range(12):
        cut.stdout.readline()
    cut.kill()
    cut.communicate(timeout=TIMEOUT)
    assert cut.returncode == -9
    rest = start("cut", "--resume")
    rest.communicate(timeout=TIMEOUT)
    assert rest.returncode == 0
    for name in ("private_lora.safetensors", "adapter_model.safetensors"):
        assert (tmp_path / "cut-adapter" / name).read_bytes() == (tmp_path / "whole-adapter" / name).read_bytes()


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt2"])
def test_generation_is_the_forwards(tmp_path, family):
    model = models.build(family)
    chosen = {"targets": TARGETS[family]} if family in TARGETS else {}
    bundle = make(model, tmp_path, chosen, weights="f32", generate_len=96, chunk_size=16)
    session = mebp.Session(bundle)
    randomise_adapter(session, scale=20.0)
    ids = models.token_ids(model, 2, 20).numpy().astype(np.int32)
    text = session.generate(ids, max_new_tokens=12)
    logits = session.logits(text.astype(np.int32))
    assert (logits[:, 19:-1].argmax(-1) == text[:, 20:]).all()
    assert not (mebp.Session(bundle).generate(ids, max_new_tokens=12) == text).all(), "the adapter changes nothing"
    native = load_runtime().Generation(session._session)
    last = native.append(ids[:1])
    assert np.abs(last - session.logits(ids[:1])[:, -1]).max() < 2e-5 * np.abs(last).max()


def test_verify(llama, tmp_path):
    models.save(llama, tmp_path / "source")
    bundle = make(tmp_path / "source", tmp_path)
    done = run_mebp("verify", bundle, "--reference", tmp_path / "source")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "9 gradients" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--train", "full", "--adapter", "private-lora"],
         "--adapter private-lora: is not for --train full; leave one of them out"),
        (["--adapter", "private-lora", "--lora-rank", "4"],
         "--lora-rank: is not for --adapter private-lora; give --rank-down and --rank-up"),
        (["--adapter", "private-lora", "--lora-alpha", "4"],
         "--lora-alpha: is not for --adapter private-lora; give --rank-down and --rank-up"),
        (["--rank-down", "4"],
         f"--rank-down: is not for --adapter lora; leave it out, or give --adapter {listed_kinds()}"),
        (["--rank-up", "4"], f"--rank-up: is not for --adapter lora; leave it out, or give --adapter {TAKING_UP}"),
        (["--share-a"], f"--share-a: is not for --adapter lora; leave it out, or give --adapter {listed_kinds()}"),
        (["--split-layers", "0-1"],
         f"--split-layers: is not for --adapter lora; leave it out, or give --adapter {listed_kinds()}"),
        *((["--adapter", "private-lora", "--split-layers", text],
           f"--split-layers {text}: give the numbers of the first and the last layer, such as 0-7")
          for text in ("two", "3-1", "-1-2", "0-1-2", "1,2")),
        (["--adapter", "private-lora", "--split-layers", "1-3"], "--split-layers 1-3: the model has layers 0 to 2"),
        (["--adapter", "private-lora", "--rank-down", "0"], "--rank-down 0: give a rank of at least 1"),
        (["--split", "private-lora"],
         "--split private-lora: needs adapters whose trained factor stays on the device; give --adapter private-lora"),
        *((["--adapter", "private-lora", option, "1"],
           f"{option}: says what --split keeps on the device; give --split {listed_kinds()}")
          for option in ("--device-first", "--device-last")),
        (["--adapter", "private-lora", "--split", "private-lora", "--device-first", "2", "--device-last", "1"],
         "--device-first 2 --device-last 1: the model has 3 layers, and one at least has to be the server's"),
        (["--adapter", "private-lora", "--split", "private-lora", "--device-last", "-1"], "--device-last: Value -1"),
        (["--adapter", "private-lora", "--optimizer", "galore"], "galore: is not for --train lora"),
    ],
    ids=str,
)  # fmt: skip
def test_what_mebpc_refuses(bundle, tmp_path, options, why):
    output = tmp_path / "out.mebp"
    command = [find_tool("mebpc"), str(bundle.parent / "model.onnx"), "-o", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and why in done.stderr, done.stderr
    assert not output.exists()


def test_what_compile_refuses(bundle, tmp_path):
    onnx = bundle.parent / "model.onnx"
    for options, why in [
        (
            {"lora": mebp.LoRA()},
            "lora and adapter cannot be used together: a bundle trains adapters of one kind; give one",
        ),
        ({"train": "full"}, "--lora-targets: is not for --train full; leave it out, or give --train lora"),
    ]:
        with pytest.raises(mebp.Error) as error:
            mebp.compile(onnx, tmp_path / "out.mebp", adapter=mebp.PrivateLoRA(), **options)
        assert str(error.value) == why
    for layers in ([], [1, 3], [2, 1]):
        with pytest.raises(mebp.Error) as error:
            mebp.compile(onnx, tmp_path / "out.mebp", adapter=mebp.PrivateLoRA(layers=layers))
        assert str(error.value) == (
            f"layers is {layers!r}; give numbers of layers, one after the other, such as range(8)"
        )
    assert not (tmp_path / "out.mebp").exists()
