# SPDX-License-Identifier: Apache-2.0
"""Adapters B M A, of which M alone is trained: gradients against true float64, the same bits however it is computed,
and what other tools make of the adapter."""

import numpy as np
import pytest
import torch

import mebp
from mebp.inspect import describe_trained, inspect
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import check, compare_gradients, make_bundle

# What each family's projections of the attention are called.
FUSED = {"gpt2": ["c_attn"], "phi3": ["qkv_proj"]}
FAMILIES = ["llama", "qwen2", "gpt2", "phi3", "gemma3_text"]
SEQUENCE, BATCH = 48, 3


def adapter(family: str = "llama", **options: object) -> mebp.PrivateLoRA:
    """Of ranks that differ and divide nothing."""
    targets = FUSED.get(family, ["q_proj", "k_proj", "v_proj"])
    return mebp.PrivateLoRA(**{"rank_down": 5, "rank_up": 7, "targets": targets, **options})


def make(model, folder, family: str = "llama", chosen: dict | None = None, **options: object):
    options = {"seq_len": SEQUENCE, "batch": BATCH, "adapter": adapter(family, **(chosen or {})), **options}
    return make_bundle(model, folder, **options)


def ids_and_labels(model, batch: int, sequence: int) -> tuple[np.ndarray, np.ndarray]:
    ids = models.token_ids(model, batch, sequence).numpy()
    labels = ids.copy()
    labels[0, :7] = -100
    labels[:, 11] = -100
    return ids, labels


def opened(bundle, **options: object) -> mebp.Session:
    """With an M that is not zero, as it is at first."""
    session = mebp.Session(bundle, **options)
    randomise_adapter(session, scale=2.0)  # A and B are small: between them it moves the loss as LoRA's do
    return session


def gradients(session: mebp.Session, model, batch: int = 2, sequence: int = 37) -> dict[str, np.ndarray]:
    return session.loss_and_gradients(*ids_and_labels(model, batch, sequence))[1]


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)


@pytest.fixture(scope="module")
def llama():
    return models.build("llama")


@pytest.fixture(scope="module")
def plain(llama, tmp_path_factory):
    """llama's bundle with nothing chosen besides."""
    return make(llama, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("share_a", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(tmp_path, show, family, share_a):
    model = models.build(family)
    bundle = make(model, tmp_path, family, {"share_a": share_a})
    session = opened(bundle)
    layers, targets = model.config.num_hidden_layers, len(adapter(family).targets)
    assert {value.shape for value in session.trainables().values()} == {(7, 5)}
    assert len(session.trainables()) == layers * targets
    for batch, sequence in [(3, 48), (2, 37), (1, 13)]:
        result = compare_gradients(bundle, session, model, *ids_and_labels(model, batch, sequence))
        show(f"private-lora, {family}{', one A' if share_a else ''}, {batch} x {sequence}: {result}")
        check(result)


def test_the_adapter_matters_and_begins_with_nothing(llama, plain):
    ids, labels = ids_and_labels(llama, 2, 37)
    session = mebp.Session(plain)
    untrained = session.loss(ids, labels)
    assert all(not value.any() for value in session.trainables().values())
    assert abs(opened(plain).loss(ids, labels) - untrained) > 1e-3


@pytest.mark.parametrize("chosen", [{"layers": range(1, 2)}, {"layers": range(1, 3), "share_a": True}])
def test_some_layers(llama, tmp_path, chosen):
    bundle = make(llama, tmp_path, chosen=chosen)
    session = opened(bundle)
    assert {int(key.split(".")[4]) for key in session.trainables()} == set(chosen["layers"])
    check(compare_gradients(bundle, session, llama, *ids_and_labels(llama, 2, 37)))


@pytest.mark.parametrize("targets", [["v_proj"], ["gate_proj", "up_proj"], ["down_proj"]])
def test_other_targets(llama, tmp_path, targets):
    bundle = make(llama, tmp_path, chosen={"targets": targets})
    check(compare_gradients(bundle, opened(bundle), llama, *ids_and_labels(llama, 2, 37)))


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_chunks(llama, tmp_path, chunk):
    bundle = make(llama, tmp_path, chunk_size=chunk)
    for batch, sequence in [(3, 48), (2, 37)]:
        check(compare_gradients(bundle, opened(bundle), llama, *ids_and_labels(llama, batch, sequence)))


@pytest.mark.parametrize("options", [{"checkpoint_spacing": 2}, {"checkpoint_spacing": 99}, {"spill": "all"}], ids=str)
def test_what_is_kept_changes_no_bit(llama, plain, tmp_path, options):
    bundle = make(llama, tmp_path, **options)
    spill = {"spill_folder": tmp_path} if "spill" in options else {}
    expected, found = opened(plain, lr=1e-2), opened(bundle, lr=1e-2, **spill)
    assert same(gradients(expected, llama), gradients(found, llama))
    ids, labels = ids_and_labels(llama, 2, 37)
    assert [found.step(ids, labels).loss for _ in range(3)] == [expected.step(ids, labels).loss for _ in range(3)]
    assert same(found.trainables(), expected.trainables())


def test_threads_change_no_bit(llama, plain):
    assert same(gradients(opened(plain, threads=1), llama), gradients(opened(plain, threads=2), llama))


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_bf16(tmp_path, show, family):
    model = models.build(family)
    bundle = make(model, tmp_path, family, precision="bf16", chunk_size=16)
    result = compare_gradients(
        bundle, opened(bundle), model, *ids_and_labels(model, 2, 37), torch.bfloat16, adapter_dtype=torch.float32
    )
    show(f"private-lora, {family}, bf16: {result}")
    check(result)


def test_the_manifest_and_inspect_say_which_adapter_it_is(llama, plain, tmp_path):
    assert inspect(plain)["manifest"]["options"]["lora"] == {
        "kind": "private-lora", "rank_down": 5, "rank_up": 7, "share_a": False, "seed": 0,
        "targets": ["q_proj", "k_proj", "v_proj"], "first_layer": 0, "last_layer": None,
    }  # fmt: skip
    assert describe_trained(inspect(plain)) == "PrivateLoRA of ranks 5 down and 7 up, on q_proj, k_proj, v_proj"
    assert "PrivateLoRA ranks 5 down 7 up" in repr(mebp.Session(plain))
    lora = make_bundle(llama, tmp_path, seq_len=SEQUENCE, lora=mebp.LoRA(rank=3, targets="q_proj"))
    options = inspect(lora)["manifest"]["options"]["lora"]
    assert options == {"kind": "lora", "rank": 3, "alpha": 16, "rslora": False, "targets": ["q_proj"], "seed": 0}
