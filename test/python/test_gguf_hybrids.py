# SPDX-License-Identifier: Apache-2.0
"""What of models with recurrences can be read from a GGUF file and written to one, and what is refused in a line."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mebp.adapters.conversion import convert_adapter
from mebp.errors import Error
from mebp.gguf.container import read_container
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from support.gguf_files import Array, File, Tensor
from support.gguf_models import HIDDEN, HYBRIDS, UNIFORM, WORDS, adapter, architecture_called, two_layers

READ = "export the model's Hugging Face folder"
WRITE = "write a folder for transformers instead (-o DIR)"


def unpack(file: File, folder: Path, with_weights: bool = True) -> dict:
    """The config.json of it."""
    (folder / "model.gguf").write_bytes(file.bytes())
    unpack_gguf(folder / "model.gguf", folder / "unpacked", with_weights)
    return json.loads((folder / "unpacked" / "config.json").read_text())


def refusal(file: File, folder: Path) -> str:
    with pytest.raises(Error) as caught:
        unpack(file, folder)
    line, place = str(caught.value), f"{folder / 'model.gguf'}: "
    assert line.startswith(place) and "\n" not in line
    return line.removeprefix(place)


def numbered(file: File) -> File:
    """Each tensor with numbers of its own, which halves hold."""
    choose = np.random.default_rng(0)

    def values(tensor: Tensor) -> Tensor:
        if tensor.name == "rope_freqs.weight":
            return tensor
        found = choose.integers(-64, 64, tensor.shape) / 32
        if tensor.name.endswith("ssm_a"):
            found = -np.exp(choose.integers(-64, 64, tensor.shape) / 32)
        return replace(tensor, content=found.astype(np.float32).tobytes())

    return replace(file, tensors=[values(each) for each in file.tensors])


@pytest.mark.parametrize("name", (*HYBRIDS, *UNIFORM))
def test_a_file_comes_back(tmp_path, name):
    """Written again from what was read, each tensor is the same."""
    file = numbered(two_layers(name))
    unpack(file, tmp_path)
    tensors = load_file(tmp_path / "unpacked" / "model.safetensors")
    shapes = {each: values.shape for each, values in tensors.items()}
    writer = ModelWriter(tmp_path / "unpacked", shapes, "f32")
    assert writer.keys - {"vocab_size"} <= architecture_called(name).keys.known
    writer.write(tmp_path / "again.gguf", tensors.values(), "tiny")
    assert unpack_again(tmp_path) == {each.name: each.content for each in file.tensors}


def unpack_again(folder: Path) -> dict[str, bytes]:
    container = read_container(folder / "again.gguf")
    return {tensor.name: container.values(tensor).tobytes() for tensor in container.tensors}


def test_value_heads_are_those_of_their_key_heads(tmp_path):
    """Two key heads with three value heads each: there 0 3 1 4 2 5 is the order."""
    file, marks = two_layers("qwen35"), np.arange(6, dtype=np.float32)
    tensors = [replace(each, content=marks.tobytes()) if each.name == "blk.0.ssm_dt.bias" else each
               for each in file.tensors]  # fmt: skip
    unpack(replace(file, tensors=tensors), tmp_path)
    found = load_file(tmp_path / "unpacked" / "model.safetensors")["model.layers.0.linear_attn.dt_bias"]
    assert found.tolist() == [0, 2, 4, 1, 3, 5]


def ahead(name: str, count: int) -> File:
    """With layers behind the others that predict further ahead."""
    file = two_layers(name).with_key(f"{name}.nextn_predict_layers", ("u32", count))
    file = file.with_key(f"{name}.block_count", ("u32", 2 + count))
    more = [Tensor(f"blk.{2 + number}.{each}.weight", shape) for number in range(count)
            for each, shape in (("attn_norm", (HIDDEN,)), ("nextn.eh_proj", (HIDDEN, 2 * HIDDEN)))]  # fmt: skip
    return replace(file, tensors=[*file.tensors, *more])


@pytest.mark.parametrize("name", ["qwen35", "qwen35moe", "qwen3next"])
def test_layers_that_predict_further_ahead_are_left_out(tmp_path, name, capsys):
    plain = unpack(two_layers(name), tmp_path)
    tensors = load_file(tmp_path / "unpacked" / "model.safetensors")
    assert "ahead" not in capsys.readouterr().err
    for count, counted in ((1, "1 layer"), (2, "2 layers")):
        folder = tmp_path / str(count)
        folder.mkdir()
        assert unpack(ahead(name, count), folder) == plain
        said = f"note: {folder / 'model.gguf'}: what predicts tokens further ahead (nextn, {counted}) is left out\n"
        assert said in capsys.readouterr().err
        assert load_file(folder / "unpacked" / "model.safetensors").keys() == tensors.keys()
    key = f"{name}.nextn_predict_layers"
    file = two_layers(name).with_key(key, ("u32", 2))
    assert refusal(file, tmp_path) == f"'{key}' is 2 of 2 layers; download it again"


REFUSED = [
    ("qwen35", {"ssm.inner_size": ("u32", 30)}, "'qwen35.ssm.inner_size' is 30, and 6 value heads of 4 for 2 key heads "
     "make another; download it again"),
    ("qwen35", {"ssm.group_count": ("u32", 4)}, "'qwen35.ssm.inner_size' is 24, and 6 value heads of 4 for 4 key heads "
     "make another; download it again"),
    ("qwen35", {"ssm.state_size": ("u32", 0)}, "'qwen35.ssm.state_size' is 0, which is not a whole number from 1 to "
     "2147483647; download it again"),
    ("qwen35", {"rope.dimension_sections": Array("i32", [4, 0, 0, 0])},
     f"'qwen35.rope.dimension_sections' is [4, 0, 0, 0], which cannot be read here; {READ}"),
    ("qwen35", {"rope.dimension_sections": Array("i32", [0, 0, 0, 0])},
     f"'qwen35.rope.dimension_sections' is [0, 0, 0, 0], which cannot be read here; {READ}"),
    ("qwen35", {"attention.layer_norm_rms_epsilon": ("f32", 1e-5)},
     f"'qwen35.attention.layer_norm_rms_epsilon' is 1e-05, and only 1e-06 can be read here; {READ}"),
    ("qwen35", {"attention.recurrent_layers": Array("bool", [1, 0])}, "has the key 'qwen35.attention.recurrent_layers',"
     f" which is not known here and may change what the model computes; {READ}"),
    ("qwen35", {"expert_count": ("u32", 2)}, f"'qwen35.expert_count' is 2, and only 0 can be read here; {READ}"),
    ("qwen3next", {"expert_weights_scale": ("f32", 2.0)}, "has the key 'qwen3next.expert_weights_scale', which is not "
     f"known here and may change what the model computes; {READ}"),
    ("lfm2", {"attention.head_count_kv": Array("u32", [0, 2, 2])}, "'lfm2.attention.head_count_kv' is [0, 2, 2], which "
     "is not one number of heads, or 0, for each of 2 layers; download it again"),
    ("lfm2", {"attention.head_count_kv": Array("u32", [1, 2])}, "'lfm2.attention.head_count_kv' is [1, 2], which "
     "is not one number of heads, or 0, for each of 2 layers; download it again"),
    ("lfm2", {"attention.head_count_kv": Array("i32", [-2, 2])}, "'lfm2.attention.head_count_kv' is [-2, 2], which "
     "is not one number of heads, or 0, for each of 2 layers; download it again"),
    ("lfm2", {"attention.sliding_window": ("u32", 8)},
     f"'lfm2.attention.sliding_window' is 8, and only 0 can be read here; {READ}"),
    ("lfm2moe", {"expert_gating_func": ("u32", 1)},
     f"'lfm2moe.expert_gating_func' is 1, and only 2 can be read here; {READ}"),
    ("lfm2moe", {"leading_dense_block_count": ("u32", 3)}, "'lfm2moe.leading_dense_block_count' is 3, which is not a "
     "whole number from 0 to 2; download it again"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "keys", "said"), REFUSED)
def test_what_a_file_may_not_say(tmp_path, name, keys, said):
    file = two_layers(name)
    for key, value in keys.items():
        file = file.with_key(f"{name}.{key}", value)
    assert refusal(file, tmp_path) == said


def test_rates_that_cannot_be(tmp_path):
    file = two_layers("qwen3next")
    tensors = [replace(each, content=bytes(24)) if each.name == "blk.0.ssm_a" else each for each in file.tensors]
    assert refusal(replace(file, tensors=tensors), tmp_path) == (
        "a tensor of rates, ssm_a, has numbers that are not below 0; download it again"
    )


def test_tensors_of_another_kind_of_layer(tmp_path):
    file = two_layers("lfm2")
    tensors = [replace(each, name=each.name.replace("blk.1.attn_v", "blk.0.attn_v")) for each in file.tensors]
    assert refusal(replace(file, tensors=tensors), tmp_path) == (
        "lacks the tensor 'blk.1.attn_v.weight'; download it again"
    )
    more = Tensor("blk.0.attn_v.weight", (HIDDEN, HIDDEN))
    assert refusal(replace(file, tensors=[*file.tensors, more]), tmp_path) == (
        f"has the tensor 'blk.0.attn_v.weight', which is not known in architecture 'lfm2'; {READ}"
    )


def test_a_gate_that_is_a_vector(tmp_path):
    """Older files have it so."""
    file = two_layers("qwen35moe")
    gates = {each.name for each in file.tensors if "ffn_gate_inp_shexp" in each.name}
    tensors = [replace(each, shape=(HIDDEN,)) if each.name in gates else each for each in file.tensors]
    unpack(replace(file, tensors=tensors), tmp_path)
    found = load_file(tmp_path / "unpacked" / "model.safetensors")
    assert found["model.layers.0.mlp.shared_expert_gate.weight"].shape == (1, HIDDEN)


COMMON = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64,
          "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
          "shared_expert_intermediate_size": 8}  # fmt: skip
QWEN = {**COMMON, "rms_norm_eps": 1e-6, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
        "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention", "full_attention"]}  # fmt: skip
LFM2 = {**COMMON, "norm_eps": 1e-5, "conv_L_cache": 3, "layer_types": ["conv", "full_attention"]}
FOLDERS = [
    ("qwen3_5_text", {"linear_value_head_dim": 8}, "has 6 value heads of 8 and 2 key heads of 4, and llama.cpp has "
     f"heads of one width, and as many value heads for each key head; {WRITE}"),
    ("qwen3_5_text", {"linear_num_key_heads": 4}, "has 6 value heads of 4 and 4 key heads of 4, and llama.cpp has "
     f"heads of one width, and as many value heads for each key head; {WRITE}"),
    ("qwen3_5_text", {"layer_types": ["full_attention", "linear_attention"]},
     f"has layers that attend in an order that llama.cpp does not know; {WRITE}"),
    ("qwen3_5_text", {"layer_types": ["linear_attention"]},
     f"has layers that attend in an order that llama.cpp does not know; {WRITE}"),
    ("qwen3_5_text", {"rms_norm_eps": 1e-5}, "has rms_norm_eps 1e-05, and llama.cpp computes the norms of queries and "
     f"keys otherwise unless it is 1e-06; {WRITE}"),
    ("qwen3_5_text", {"linear_conv_kernel_dim": "4"}, "'linear_conv_kernel_dim' is '4', which is not a whole number "
     "from 1 on; export and compile the model again"),
    ("qwen3_5_moe_text", {"num_experts": None}, "lacks the number 'num_experts'; export and compile the model again"),
    ("qwen3_next", {"mlp_only_layers": [1]},
     f"has mlp_only_layers [1], which llama.cpp does not compute in 'qwen3next'; {WRITE}"),
    ("qwen3_5_moe_text", {"attention_bias": True},
     f"has attention_bias True, which llama.cpp does not compute in 'qwen35moe'; {WRITE}"),
    ("qwen3_next", {"norm_topk_prob": False},
     f"has norm_topk_prob False, which llama.cpp does not compute in 'qwen3next'; {WRITE}"),
    ("lfm2", {"conv_bias": True}, f"has conv_bias True, which llama.cpp does not compute in 'lfm2'; {WRITE}"),
    ("lfm2", {"head_dim": 8}, "has 2 heads of 8, and llama.cpp wants as many numbers in them as the hidden_size, 32; "
     f"{WRITE}"),
    ("lfm2", {"layer_types": ["conv", "sliding_attention"]},
     f"has layer_types that llama.cpp does not know in 'lfm2'; {WRITE}"),
    ("lfm2_moe", {"use_expert_bias": False},
     f"has use_expert_bias False, which llama.cpp does not compute in 'lfm2moe'; {WRITE}"),
    ("lfm2_moe", {"routed_scaling_factor": 2.0},
     f"has routed_scaling_factor 2.0, which llama.cpp does not compute in 'lfm2moe'; {WRITE}"),
]  # fmt: skip


def written(folder: Path, model_type: str, fields: dict, name: str = "model.embed_tokens.weight") -> ModelWriter:
    config = {"model_type": model_type, **(LFM2 if "lfm2" in model_type else QWEN), **fields}
    file = folder / "config.json"
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return ModelWriter(folder, {name: (WORDS, 32)}, "f32")


@pytest.mark.parametrize(("model_type", "fields", "said"), FOLDERS)
def test_folders_that_llama_cpp_would_compute_otherwise(tmp_path, model_type, fields, said):
    written(tmp_path, model_type, {})
    with pytest.raises(Error) as caught:
        written(tmp_path, model_type, fields)
    assert str(caught.value) == f"{tmp_path / 'config.json'}: {said}"


def test_a_tensor_that_is_not_in_the_table(tmp_path):
    for model_type, name in (("qwen3_5_text", "model.layers.0.linear_attn.in_proj_qkvz.weight"),
                             ("qwen3_next", "mtp.fc.weight"), ("lfm2", "model.norm.weight")):  # fmt: skip
        with pytest.raises(Error, match=f"tensor '{name}' has no name in llama.cpp's '"):
            written(tmp_path, model_type, {}, name)


def of_adapter(file: File, folder: Path, **fields: object) -> str:
    """What converting it says, with a base model of these fields."""
    (folder / "base").mkdir(exist_ok=True)
    (folder / "base" / "config.json").write_text(json.dumps({"model_type": "qwen3_next", **QWEN, **fields}))
    (folder / "a.gguf").write_bytes(file.bytes())
    with pytest.raises(Error) as caught:
        convert_adapter(folder / "a.gguf", folder / "out", "peft", base=folder / "base")
    assert not (folder / "out").exists()
    return str(caught.value).removeprefix(f"{folder / 'a.gguf'}: ")


QKV, GATE = ("attn_qkv", 40, HIDDEN), ("attn_gate", 24, HIDDEN)
QKVZ = "model.layers.0.linear_attn.in_proj_qkvz"


def test_adapters_that_transformers_cannot_have(tmp_path):
    assert of_adapter(adapter("qwen3next", (GATE,)), tmp_path) == (
        f"'{QKVZ}' has 1 of its 2 parts in llama.cpp, and only all of them can be read here; adapt the others, too"
    )
    file = adapter("qwen3next", (QKV, GATE))
    tensors = [replace(each, content=np.ones(2 * HIDDEN, np.float32).tobytes()) if "gate.weight.lora_a" in each.name
               else each for each in file.tensors]  # fmt: skip
    assert of_adapter(replace(file, tensors=tensors), tmp_path) == (
        f"the parts of '{QKVZ}' have an A each, and transformers has them in one layer; merge the adapter in llama.cpp"
    )
    own = "use the adapter's own base model"
    assert of_adapter(file, tmp_path, linear_num_value_heads=4) == (
        f"'{QKVZ}' has 64 rows or columns where its base model has 48; {own}"
    )
    assert of_adapter(file, tmp_path, linear_num_value_heads=None) == (
        "the base model's config.json lacks a size of 'qwen3next'; download it again"
    )
    assert of_adapter(adapter("qwen35", (("ssm_out", HIDDEN, 20),)), tmp_path) == (
        f"'model.layers.0.linear_attn.out_proj' has 20 rows or columns where its base model has 24; {own}"
    )
    for module in ("ssm_conv1d", "ffn_gate_exps", "attn_norm", "nextn.eh_proj"):
        assert of_adapter(adapter("qwen35moe", ((module, HIDDEN, HIDDEN),)), tmp_path) == (
            f"has 'blk.0.{module}.weight.lora_a', and only LoRA of linear layers is supported; train the adapter "
            "without it"
        )


def test_published_sections_stay_as_they_are(tmp_path):
    rope = {"rope_type": "default", "rope_theta": 1e7, "mrope_section": [11, 11, 10], "mrope_interleaved": True}
    found = written(tmp_path, "qwen3_5_text", {"head_dim": 256, "rope_parameters": rope})
    assert found._metadata["rope.dimension_sections"] == [11, 11, 10, 0]
    assert found._metadata["rope.dimension_count"] == 64
    found = written(tmp_path, "qwen3_5_text", {})
    assert found._metadata["rope.dimension_sections"] == [1, 1, 0, 0]


def test_a_tensor_of_other_sizes_than_config_json_s(tmp_path):
    written(tmp_path, "qwen3_next", {})
    name = "model.layers.0.mlp.experts.gate_up_proj"
    writer = ModelWriter(tmp_path, {name: (3, 20, 32)}, "f32")
    with pytest.raises(Error, match="'blk.0.ffn_gate_exps.weight and blk.0.ffn_up_exps.weight' has 20 rows or columns"):
        _ = writer.bytes
