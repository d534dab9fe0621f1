# SPDX-License-Identifier: Apache-2.0
"""A GGUF file is trained as it lies: a bundle has its blocks byte for byte, or its codes, and kernels read them."""

import copy
import math
import os
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import mebp
from mebp.gguf.blocks import BLOCKS as LAID
from mebp.gguf.container import StoredTensor, read_container
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from mebp.inspect import inspect
from mebp.tensor_file import relative_norm
from support import models
from support.gguf_blocks import BLOCKS, Fill, quantised, random_blocks, rewrite
from support.llama_cpp import llama_cpp  # noqa: F401
from support.pipeline import check, compare_gradients
from support.textmodel import make_tokenizer

MIXTURES = [("Q4_K", "Q5_K", "Q6_K"), ("Q5_0", "Q5_1", "MXFP4", "F16", "BF16"), ("Q4_0", "Q4_1", "Q8_0")]
ELEMENTS = {"Q4_0": "int4", "Q4_1": "int4", "Q8_0": "int8"}  # of the others as they are called
TINY = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
SMALL = TINY | {"hidden_size": 512, "intermediate_size": 768, "num_attention_heads": 8, "num_key_value_heads": 4}


def write(folder: Path, with_tokenizer: bool = False, **fields: object) -> tuple[torch.nn.Module, Path]:
    """A Llama, and its GGUF file in f32."""
    model = models.build("llama", **fields)
    models.save(model, folder / "source")
    if with_tokenizer:
        make_tokenizer(folder / "source")
    tensors = load_file(folder / "source" / "model.safetensors")
    shapes = {name: values.shape for name, values in tensors.items()}
    ModelWriter(folder / "source", shapes, "f32").write(folder / "f32.gguf", tensors.values(), "tiny")
    return model, folder / "f32.gguf"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("tiny"), **TINY)[1]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[torch.nn.Module, Path]:
    return write(tmp_path_factory.mktemp("small"), **SMALL)


def compiled(file: Path, folder: Path, **options: object) -> Path:
    mebp.export(file, folder / "model.onnx", seq_len=16)
    mebp.compile(folder / "model.onnx", folder / "model.mebp", **({"precision": "f32"} | options))
    return folder / "model.mebp"


def unpacked(file: Path, folder: Path) -> dict[str, np.ndarray]:
    """What the gguf package makes of it, by transformers' names."""
    folder.mkdir(exist_ok=True)
    unpack_gguf(file, folder / "unpacked")
    return load_file(folder / "unpacked" / "model.safetensors")


def elements(bundle: Path) -> dict[str, str]:
    return {weight["name"]: weight["storage"] for weight in inspect(bundle)["weights"]}


def of_kinds(kinds: Sequence[str], make: Callable[[str, StoredTensor], np.ndarray]) -> Fill:
    """The first matrix of the first type, and so on, in turns."""
    turns = cycle(kinds)

    def fill(tensor: StoredTensor) -> tuple[str, np.ndarray]:
        kind = next(turns)
        return kind, make(kind, tensor)

    return fill


def test_any_blocks_are_the_numbers_that_they_stand_for(tiny, tmp_path):
    """Bit for bit, whatever the codes and the scales."""
    generator, plain = np.random.default_rng(7), read_container(tiny)
    fill = of_kinds([*BLOCKS], lambda kind, tensor: random_blocks(generator, kind, tensor.shape, 65504.0))
    file = rewrite(plain, tmp_path / "model.gguf", fill)
    bundle = compiled(file, tmp_path)
    expected, found, storages = unpacked(file, tmp_path), mebp.Session(bundle).base_weights(), elements(bundle)
    assert set(storages.values()) == {ELEMENTS.get(kind, kind.lower()) for kind in BLOCKS} | {"f32"}
    for name, values in expected.items():
        if storages[name] in ELEMENTS.values():  # -0 is 0 there
            assert np.array_equal(values, found[name]), name
        else:
            assert np.array_equal(values.view(np.uint32), found[name].view(np.uint32)), name


def test_weights_have_the_bytes_of_the_file(tiny, tmp_path):
    """Rows of queries and keys are moved, and nothing else."""
    generator, plain = np.random.default_rng(7), read_container(tiny)
    fill = of_kinds(["Q4_K"], lambda kind, tensor: random_blocks(generator, kind, tensor.shape, 1.0))
    file = rewrite(plain, tmp_path / "model.gguf", fill)
    bundle, container = compiled(file, tmp_path), read_container(file)
    content, raw = (bundle / "weights.bin").read_bytes(), {each.name: container.raw(each) for each in container.tensors}
    every = {"model.embed_tokens": "token_embd", "model.layers.1.mlp.down_proj": "blk.1.ffn_down",
             "model.layers.0.self_attn.q_proj": "blk.0.attn_q"}  # fmt: skip
    for ours, theirs in every.items():
        rows = raw[f"{theirs}.weight"]
        if "attn_q" in theirs:
            rows = rows.reshape(4, 32, 2, -1).swapaxes(1, 2).reshape(rows.shape)
        assert content.find(rows.tobytes()) >= 0, ours


def exact_logits(model: torch.nn.Module, weights: dict[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
    model.load_state_dict({name: torch.from_numpy(values.copy()).double() for name, values in weights.items()},
                          strict=False)  # fmt: skip
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids)).logits.numpy()


@pytest.mark.parametrize("kinds", MIXTURES, ids=" ".join)
def test_logits_and_gradients_are_those_of_the_files_numbers(small, kinds, tmp_path, llama_cpp, show):  # noqa: F811
    model, plain = small
    container = read_container(plain)
    fill = of_kinds(kinds, lambda kind, tensor: quantised(kind, container.values(tensor)))
    file = rewrite(container, tmp_path / "model.gguf", fill)
    bundle, weights = compiled(file, tmp_path), unpacked(file, tmp_path)
    session, ids = mebp.Session(bundle), models.token_ids(model, 1, 16).numpy()
    reference = copy.deepcopy(model).double()
    expected = exact_logits(reference, weights, ids)[0]
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(expected[:-1]), torch.from_numpy(ids[0, 1:])).item()
    assert abs(loss - math.log(expected.shape[-1])) >= 1
    ours = relative_norm(session.logits(ids)[0] - expected, expected)
    theirs = relative_norm(llama_cpp.logits(file, ids[0]) - expected, expected)
    show(f"{', '.join(kinds)}: logits {ours:.1e} from float64's, llama.cpp's {theirs:.1e}; loss {loss:.2f}")
    assert ours < 1e-4 and ours < 2 * theirs
    for name in [name for name, values in weights.items() if values.ndim > 1]:
        changed = {name: weights[name].copy()}
        row = int(ids[0, 3]) if "embed_tokens" in name else 5
        changed[name][row, :32] *= 1.25  # by another scale of one block
        moved = exact_logits(reference, weights | changed, ids)[0]
        assert relative_norm(moved - expected, expected) > 1e-4, name
    mebp_ids, labels = ids, np.where(np.arange(16) % 5 == 0, -100, ids)
    check(compare_gradients(bundle, session, model, mebp_ids, labels))


@pytest.mark.parametrize("options", [{"chunk_size": 5}, {"checkpoint_spacing": 2}, {"precision": "bf16"}], ids=str)
def test_gradients_do_not_depend_on_the_schedule(small, options, tmp_path):
    model, plain = small
    container = read_container(plain)
    fill = of_kinds([*BLOCKS], lambda kind, tensor: quantised(kind, container.values(tensor)))
    bundle = compiled(rewrite(container, tmp_path / "model.gguf", fill), tmp_path, **options)
    ids = models.token_ids(model, 1, 16).numpy()
    dtype = torch.bfloat16 if "precision" in options else torch.float32
    check(compare_gradients(bundle, mebp.Session(bundle), model, ids, ids, dtype))


def test_text_goes_on_token_by_token(small, tmp_path):
    """Few rows are multiplied otherwise."""
    _, plain = small
    container = read_container(plain)
    fill = of_kinds(["Q4_K", "Q6_K"], lambda kind, tensor: quantised(kind, container.values(tensor)))
    file = rewrite(container, tmp_path / "model.gguf", fill)
    session = mebp.Session(compiled(file, tmp_path, generate_len=16))
    ids = np.array([[3, 1, 4]], np.int64)
    for _ in range(8):
        ids = np.concatenate([ids, session.logits(ids)[:, -1].argmax(-1)[:, None]], axis=1)
    assert session.generate(np.array([[3, 1, 4]]), max_new_tokens=8).tolist() == ids.tolist()


def test_what_cannot_use_blocks_refuses_them(tiny, tmp_path):
    generator, plain = np.random.default_rng(7), read_container(tiny)
    fill = of_kinds(["Q4_K"], lambda kind, tensor: random_blocks(generator, kind, tensor.shape, 1.0))
    compiled(rewrite(plain, tmp_path / "model.gguf", fill), tmp_path)
    before = sorted(tmp_path.iterdir())

    def refusal(**options: object) -> str:
        with pytest.raises(mebp.Error) as caught:
            mebp.compile(tmp_path / "model.onnx", tmp_path / "other.mebp", **options)
        return str(caught.value).removeprefix(f"{tmp_path}/model.onnx: ")

    where = "in which 'model.embed_tokens.weight' is stored"
    assert f"--device mlx-cpu: has no kernels for q4_k, {where}; give --weights int8" in refusal(device="mlx-cpu")
    for optimizer, kept in ((None, "bf16"), ("galore", "bf16"), ("qgalore", "int8, bf16")):
        assert f"would be stored as q4_k, which a step cannot change; give --weights {kept} or f32" in refusal(
            train="full", weights="file", optimizer=optimizer
        )
    assert refusal(weights="q4_k") == "--weights q4_k: choose f32, bf16, int8, int4, int4-sym or file"
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_ends_within_a_block_leaves_nothing(tiny, tmp_path):
    generator, plain = np.random.default_rng(7), read_container(tiny)
    fill = of_kinds(["Q4_K"], lambda kind, tensor: random_blocks(generator, kind, tensor.shape, 1.0))
    file = rewrite(plain, tmp_path / "model.gguf", fill)
    compiled(file, tmp_path)
    blocks = tmp_path / LAID
    os.truncate(blocks, blocks.stat().st_size - 100)
    with pytest.raises(mebp.Error, match=f"ends at byte .* of .{blocks}., which has only .*; copy that file again$"):
        mebp.compile(tmp_path / "model.onnx", tmp_path / "other.mebp")
    os.truncate(file, file.stat().st_size - 100)
    with pytest.raises(mebp.Error, match=f"^{file}: cut off .*; download it again$"):
        mebp.export(file, tmp_path / "again" / "model.onnx")
    assert not (tmp_path / "other.mebp").exists() and not (tmp_path / "again").exists()


def test_another_storage_may_be_asked_for(tiny, tmp_path):
    """The numbers are there, too."""
    generator, plain = np.random.default_rng(7), read_container(tiny)
    fill = of_kinds(["Q4_K"], lambda kind, tensor: random_blocks(generator, kind, tensor.shape, 1e-3))
    file = rewrite(plain, tmp_path / "model.gguf", fill)
    storages = elements(compiled(file, tmp_path, weights="int8", weights_for={"*.v_proj": "file"}))
    matrices = {name: storage for name, storage in storages.items() if "proj" in name}
    assert {storage for name, storage in matrices.items() if "v_proj" in name} == {"q4_k"}
    assert {storage for name, storage in matrices.items() if "v_proj" not in name} == {"int8"}


@pytest.mark.parametrize("vocabulary", [259, 300], ids=["grown", "rows left"])
def test_new_tokens_leave_the_others_blocks_alone(vocabulary, tmp_path):
    _, plain = write(tmp_path, vocab_size=vocabulary, with_tokenizer=True, **TINY)
    container = read_container(plain)
    fill = of_kinds(["Q6_K", "Q4_1", "Q4_K"], lambda kind, tensor: quantised(kind, container.values(tensor)))
    file = rewrite(container, tmp_path / "model.gguf", fill)
    mebp.export(file, tmp_path / "model.onnx", seq_len=16, train_tokens=["<|tool|>", "<|think|>"])
    mebp.compile(tmp_path / "model.onnx", tmp_path / "model.mebp", precision="f32")
    storages, found = elements(tmp_path / "model.mebp"), mebp.Session(tmp_path / "model.mebp").base_weights()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert storages[name] in ("q6_k", "q4_k", "int4"), name
        values, rows = unpacked(file, tmp_path / name)[name], found[name]
        assert np.array_equal(rows[:259], values[:259]) and np.array_equal(rows[261:], values[261:])
        mean = values[:259].astype(np.float64).mean(axis=0).astype(np.float32)
        assert np.array_equal(rows[259:261], np.stack([mean, mean]))
