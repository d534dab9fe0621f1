# SPDX-License-Identifier: Apache-2.0
"""Models with recurrences as GGUF files, in and out: llama.cpp computes with them what transformers does."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import PreTrainedModel

import mebp
from mebp.cli import main
from mebp.exporter.text_parts import text_config
from mebp.files import read_json
from mebp.gguf.architectures import ARCHITECTURES
from mebp.gguf.container import read_container
from mebp.gguf.metadata import model_metadata
from mebp.gguf.source import unpack_gguf
from mebp.inspect import inspect
from support import models
from support.gguf_adapters import (
    IDS,
    Adapted,
    as_published,
    check_merged,
    check_there_and_back,
    logits_of,
    tensors_of,
    write_gguf,
)
from support.llama_cpp import LlamaCpp, llama_cpp  # noqa: F401

TOLERANCE = 2e-4
# llama.cpp has value heads as wide as key heads, and knows layers that attend by their distance.
DELTA = {"linear_value_head_dim": 12, "full_attention_interval": 2, "head_dim": 32}
FAMILIES: dict[str, dict] = {
    "lfm2": {},
    "lfm2_moe": {},
    "qwen3_5_text": DELTA,
    "qwen3_5_moe_text": DELTA,
    "qwen3_next": DELTA,
}


def heads(keys: int, values: int, width: int) -> dict:
    return {"linear_num_key_heads": keys, "linear_num_value_heads": values, "linear_key_head_dim": width,
            "linear_value_head_dim": width}  # fmt: skip


SIZES = {"hidden_size": 64, "intermediate_size": 120, "num_hidden_layers": 4, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 48, "max_position_embeddings": 96, "rms_norm_eps": 0.1,
         "norm_eps": 0.1, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 40, "shared_expert_intermediate_size": 88, "linear_conv_kernel_dim": 3,
         "conv_L_cache": 2, "num_dense_layers": 2}  # fmt: skip
OF_LFM2 = {**SIZES, "head_dim": 32, "layer_types": ["full_attention", "conv", "full_attention", "conv"]}
OF_QWEN = {**SIZES, "rms_norm_eps": 1e-6, **heads(3, 9, 20), "layer_types": None, "full_attention_interval": 3}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16,
        "attention_factor": 1.5}  # fmt: skip
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 1e5, "factor": 2.0, "partial_rotary_factor": 0.5}
# A family, and what else it has: value heads of each key head, layers, words.
CASES = {
    **{family: (family, {}) for family in FAMILIES},
    "as many heads": ("qwen3_5_text", heads(4, 4, 16)),
    "two of each": ("qwen3_5_text", {**heads(2, 4, 20), "tie_word_embeddings": True}),
    "three of an odd width": ("qwen3_5_text", heads(3, 9, 7)),
    "joined, two of each": ("qwen3_next", heads(2, 4, 20)),
    "joined, as many": ("qwen3_next", heads(3, 3, 7)),
    "all attend but the first": ("lfm2", {"layer_types": ["conv", "full_attention", "full_attention"]}),
    "none attends before the last": ("qwen3_5_text", {"full_attention_interval": 3, "layer_types": None}),
    "a convolution of 5, and sizes of an older file": (
        "lfm2", {"conv_L_cache": 5, "block_auto_adjust_ff_dim": True, "block_multiple_of": 12,
                 "block_ffn_dim_multiplier": 1.3, "tie_word_embeddings": True}),
    "experts and a head of its own": ("lfm2_moe", {"tie_word_embeddings": False}),
    "all layers with experts": ("lfm2_moe", {"num_dense_layers": 0}),
    **{f"other sizes of {family}": (family, OF_LFM2 if family.startswith("lfm2") else OF_QWEN) for family in FAMILIES},
    **{f"yarn in {family}": (family, {"rope_parameters": YARN}) for family in FAMILIES},
    **{f"half of a head in {family}": (family, {"rope_parameters": LINEAR_ROPE, "partial_rotary_factor": 0.5})
       for family in FAMILIES if "qwen" in family},
}  # fmt: skip


def build(family: str, **fields: object) -> PreTrainedModel:
    # A configuration adds to what it is given.
    return as_published(models.build(family, **deepcopy({**FAMILIES[family], **fields})))


@pytest.mark.parametrize("case", CASES)
def test_a_model_goes_there_and_back(tmp_path, case, llama_cpp):  # noqa: F811
    family, fields = CASES[case]
    check_there_and_back(build(family, **fields), tmp_path, llama_cpp, TOLERANCE)


def rewritten(file: Path, joining: dict[str, list[str]], order: Callable[[np.ndarray], np.ndarray]) -> Path:
    """With tensors of each layer joined by their rows, which `order` then turns."""
    container, other = read_container(file), file.with_name("other.gguf")
    writer = gguf.GGUFWriter(other, container.metadata["general.architecture"])
    add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
    for key, value in container.metadata.items():
        if key != "general.architecture":
            add[type(value)](key, value)
    values = {tensor.name: container.values(tensor) for tensor in container.tensors}
    for layer in range(3):
        for name, parts in joining.items():
            found = [values.pop(f"blk.{layer}.{part}.weight", None) for part in parts]
            if found[0] is not None:
                values[f"blk.{layer}.{name}.weight"] = order(np.concatenate(found, -2))
    for name, tensor in values.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return other


@pytest.mark.parametrize("family", ["qwen3_5_moe_text", "qwen3_next"])  # llama.cpp reads it in no LFM2
def test_experts_whose_gates_are_joined(tmp_path, family, llama_cpp):  # noqa: F811
    model = build(family)
    file = write_gguf(model, tmp_path)
    other = rewritten(file, {"ffn_gate_up_exps": ["ffn_gate_exps", "ffn_up_exps"]}, lambda values: values)
    check_same(other, tmp_path, model, llama_cpp)


def test_weights_of_older_files_by_key_heads(tmp_path, llama_cpp):  # noqa: F811
    model = build("qwen3_next", **heads(2, 4, 20))
    file = write_gguf(model, tmp_path)

    def by_key_heads(values: np.ndarray) -> np.ndarray:
        queries, keys, others, gates = np.split(values.reshape(12, 20, 96), [2, 4, 8])
        each = [np.concatenate([queries[[key]], keys[[key]], others[2 * key : 2 * key + 2],
                                gates[2 * key : 2 * key + 2]]) for key in range(2)]  # fmt: skip
        return np.concatenate(each).reshape(values.shape)

    # The layer that attends has no gate of this name.
    other = rewritten(file, {"ssm_in": ["attn_qkv", "attn_gate"]}, by_key_heads)
    check_same(other, tmp_path, model, llama_cpp)


def check_same(file: Path, folder: Path, model: PreTrainedModel, llama_cpp: LlamaCpp) -> None:  # noqa: F811
    assert np.abs(llama_cpp.logits(file, IDS) - logits_of(model, IDS)).max() < TOLERANCE
    unpacked = unpack_gguf(file, folder / "unpacked")
    assert not unpacked.blocks and unpacked.kept
    found, own = load_file(folder / "unpacked" / "model.safetensors"), tensors_of(model)
    assert found.keys() == own.keys()
    assert [name for name in own if not np.array_equal(found[name], own[name])] == []


# No file that is written has these: of 2023, and of layers that are left out (test/python/test_gguf_hybrids.py).
UNWRITTEN = {"rope.scale_linear", "nextn_predict_layers"}


def test_each_key_is_tried(tmp_path):
    """Two values of each that is read are in the files above, or it is missing in some."""
    found: dict[str, dict[str, set[str]]] = {}
    for family, fields in CASES.values():
        models.configure(family, **deepcopy({**FAMILIES[family], **fields})).save_pretrained(tmp_path)
        config = text_config(read_json(tmp_path / "config.json", ""))
        metadata = model_metadata(ARCHITECTURES[family], config, tmp_path / "config.json")
        for key in ARCHITECTURES[family].keys.read:
            found.setdefault(family, {}).setdefault(key, set()).add(str(metadata.get(key)))
    assert found.keys() == FAMILIES.keys()
    for family, keys in found.items():
        same = {key for key, values in keys.items() if len(values) < 2} - UNWRITTEN
        # In a DeltaNet another epsilon is refused.
        assert same <= {"attention.layer_norm_rms_epsilon"}, family


@pytest.mark.parametrize("family", FAMILIES)
def test_a_merged_model_is_what_llama_cpp_computes(tmp_path, family, llama_cpp, show):  # noqa: F811
    """And what is exported of the file again, and the text that it writes."""
    difference = check_merged(build(family), tmp_path, llama_cpp, TOLERANCE, 100 * TOLERANCE)
    show(f"{family} merged: logits of llama.cpp within {difference:.1e} of the session's")


@pytest.mark.parametrize("dtype", ["bf16", "q8_0", "q4_1"])
def test_types(tmp_path, dtype, llama_cpp):  # noqa: F811
    """Convolutions and routers stay in f32, which llama.cpp wants; rows that blocks of 32 do not divide are f16."""
    model = build("qwen3_5_moe_text", **heads(2, 4, 16))
    container = read_container(write_gguf(model, tmp_path, dtype))
    kinds = {tensor.name.split(".", 2)[-1]: tensor.kind for tensor in container.tensors}
    assert {kinds[f"{name}.weight"] for name in ("ssm_conv1d", "ffn_gate_inp", "ffn_gate_inp_shexp")} == {"F32"}
    assert {kinds[f"{name}.weight"] for name in ("ffn_up_exps", "attn_qkv", "ssm_out")} == {dtype.upper()}
    assert kinds["ffn_down_exps.weight"] == ("F16" if "q" in dtype else "BF16")
    assert np.isfinite(llama_cpp.logits(container.path, IDS)).all()


@pytest.mark.parametrize(("family", "width"), [("qwen3_5_text", 32), ("qwen3_5_moe_text", 16), ("lfm2", 12)])
def test_a_bundle_keeps_the_codes(tmp_path, family, width):
    """Value heads of 16 numbers make groups of 32 of two heads, which transformers does not have side by side: f32."""
    fields = {**heads(2, 4, width), "intermediate_size": 192, "moe_intermediate_size": 64,
              "shared_expert_intermediate_size": 64}  # fmt: skip
    model = build(family, **({"intermediate_size": 192} if family == "lfm2" else fields))
    file = write_gguf(model, tmp_path, "q8_0")
    unpacked = unpack_gguf(file, tmp_path / "unpacked")
    apart = "2 of Q8_0 are stored as f32, the same numbers, for a bundle has them in another order: blk.0.ssm_out"
    assert any(line.startswith(apart) for line in unpacked.kept) == (width == 16)
    mebp.export(file, tmp_path / "x" / "model.onnx", seq_len=16)
    mebp.compile(tmp_path / "x" / "model.onnx", tmp_path / "x.mebp", seq_len=16, precision="f32")
    found = mebp.Session(tmp_path / "x.mebp").base_weights()
    for name, values in load_file(tmp_path / "x" / "model.safetensors").items():
        assert np.array_equal(found[name].reshape(values.shape), values), name
    storages = {weight["name"]: weight["storage"] for weight in inspect(tmp_path / "x.mebp")["weights"]}
    torn = {name for name, storage in storages.items() if storage == "f32" and name.endswith("out_proj.weight")}
    assert torn == ({f"model.layers.{layer}.linear_attn.out_proj.weight" for layer in (0, 2)} if width == 16 else set())


# all-linear as PEFT has it, but where it takes that for the experts, too, whose adapters no GGUF file has.
LINEAR: dict[str, list[str]] = {
    "qwen3_next": ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkvz", "in_proj_ba", "out_proj",
                   "shared_expert_gate"],
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_goes_there_and_back(tmp_path, family, llama_cpp, show):  # noqa: F811
    adapted = Adapted(tmp_path, build(family), target_modules=LINEAR.get(family, "all-linear"))
    written, back = tmp_path / "adapter.gguf", tmp_path / "back"
    given = ["adapter", "convert", str(adapted.adapter), "--to", "gguf", "-o", str(written), "--base"]
    assert main([*given, str(adapted.base)]) == 0
    difference = np.abs(llama_cpp.logits(adapted.file, IDS, written) - adapted.logits).max()
    show(f"adapter of {family}: logits of llama.cpp within {difference:.1e}")
    assert difference < TOLERANCE
    assert np.abs(adapted.plain - adapted.logits).max() > 100 * TOLERANCE
    adapted.check_back(written, back)
    first = written.read_bytes()
    written.unlink()
    assert main([*given, str(adapted.file)]) == 0
    assert written.read_bytes() == first
