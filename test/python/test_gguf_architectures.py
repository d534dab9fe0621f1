# SPDX-License-Identifier: Apache-2.0
"""What Gemma, Gemma 2, Mixtral, Qwen2-MoE, Qwen3-MoE, SmolLM3, Granite and OLMo 2 may not be in a GGUF file, in and
out: each is one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from support.gguf_files import Array, File, Tensor
from support.gguf_models import HIDDEN, WORDS, two_layers

READ = "export the model's Hugging Face folder"
WRITE = "write a folder for transformers instead (-o DIR)"
NOT_KNOWN = f"which is not known here and may change what the model computes; {READ}"
FULL, WINDOW = "full_attention", "sliding_attention"
COMMON = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 5,
          "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-6}  # fmt: skip
EXPERTS = {"num_experts": 3, "num_local_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
           "shared_expert_intermediate_size": 8}  # fmt: skip
OWN = {
    "gemma2": {"query_pre_attn_scalar": 16},
    "mixtral": EXPERTS,
    "qwen2_moe": EXPERTS,
    "qwen3_moe": {**EXPERTS, "norm_topk_prob": True},
}
NOT_COMPUTED = f"which llama.cpp does not compute in 'NAME'; {WRITE}"
FOLDERS = [
    ("gemma", {"attention_bias": True}, f"has attention_bias True, {NOT_COMPUTED}"),
    ("gemma", {"tie_word_embeddings": False}, f"has tie_word_embeddings False, {NOT_COMPUTED}"),
    ("gemma", {"use_bidirectional_attention": True}, f"has use_bidirectional_attention, {NOT_COMPUTED}"),
    ("gemma", {"hidden_act": "silu"},
     f"has the activation 'silu', and llama.cpp computes gelu_pytorch_tanh in 'NAME'; {WRITE}"),
    ("gemma", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                   "high_freq_factor": 4.0, "original_max_position_embeddings": 16}},
     f"has positions of type 'llama3', which cannot be written as GGUF here; {WRITE}"),
    ("gemma2", {"layer_types": [FULL] * 5}, "has layers with a window in another order than every second, "
     f"{NOT_COMPUTED}"),
    ("gemma2", {"layer_types": [FULL, WINDOW] * 2 + [FULL]}, "has layers with a window in another order than every "
     f"second, {NOT_COMPUTED}"),
    ("gemma2", {"query_pre_attn_scalar": 8},
     f"has query_pre_attn_scalar 8, and llama.cpp computes 16 in 'NAME'; {WRITE}"),
    ("gemma2", {"attn_logit_softcapping": None},
     f"has no attn_logit_softcapping, and llama.cpp computes one in 'NAME' always; {WRITE}"),
    ("gemma2", {"final_logit_softcapping": 0},
     f"has no final_logit_softcapping, and llama.cpp computes one in 'NAME' always; {WRITE}"),
    ("mixtral", {"num_local_experts": None},
     "lacks the number 'num_local_experts'; export and compile the model again"),
    ("mixtral", {"sliding_window": 8}, f"has a sliding window, which llama.cpp ignores in 'llama'; {WRITE}"),
    ("qwen2_moe", {"norm_topk_prob": True}, f"has norm_topk_prob True, {NOT_COMPUTED}"),
    ("qwen2_moe", {"mlp_only_layers": [1]}, f"has mlp_only_layers [1], {NOT_COMPUTED}"),
    ("qwen2_moe", {"decoder_sparse_step": 2}, f"has decoder_sparse_step 2, {NOT_COMPUTED}"),
    ("qwen2_moe", {"tie_word_embeddings": True}, f"has tie_word_embeddings True, {NOT_COMPUTED}"),
    ("qwen2_moe", {"head_dim": 8}, "has 2 heads of 8, and llama.cpp wants as many numbers in them as the hidden_size, "
     f"32, in 'NAME'; {WRITE}"),
    ("qwen2_moe", {"use_sliding_window": True, "sliding_window": 8},
     f"has a sliding window, which llama.cpp ignores in 'NAME'; {WRITE}"),
    ("qwen3_moe", {"norm_topk_prob": None}, f"has norm_topk_prob False, {NOT_COMPUTED}"),
    ("qwen3_moe", {"attention_bias": True}, f"has attention_bias True, {NOT_COMPUTED}"),
    ("qwen3_moe", {"num_experts": "3", "num_local_experts": None},
     "'num_experts' is '3', which is not a whole number from 1 on; export and compile the model again"),
    ("smollm3", {"no_rope_layers": [1, 0, 1, 0, 1]}, "has layers without positions that are not every fourth, "
     f"{NOT_COMPUTED}"),
    ("smollm3", {"no_rope_layer_interval": 3}, "has layers without positions that are not every fourth, "
     f"{NOT_COMPUTED}"),
    ("smollm3", {"no_rope_layers": "all"},
     "'no_rope_layers' is 'all', which is not a list of numbers from 0 on; export and compile the model again"),
    ("smollm3", {"mlp_bias": True}, f"has mlp_bias True, {NOT_COMPUTED}"),
    ("granite", {"residual_multiplier": 0}, f"has residual_multiplier 0, which llama.cpp takes for another; {WRITE}"),
    ("granite", {"logits_scaling": "2"}, "'logits_scaling' is '2', which is not a number from 0 on; export and compile "
     "the model again"),
    ("olmo2", {"tie_word_embeddings": True}, f"has tie_word_embeddings True, {NOT_COMPUTED}"),
    ("olmo2", {"attention_bias": True}, f"has attention_bias True, {NOT_COMPUTED}"),
    ("olmo2", {"head_dim": 8}, "has 2 heads of 8, and llama.cpp wants as many numbers in them as the hidden_size, 32, "
     f"in 'NAME'; {WRITE}"),
    ("qwen3", {"attention_bias": True}, f"has attention_bias True, {NOT_COMPUTED}"),
]  # fmt: skip


def written(folder: Path, model_type: str, fields: dict) -> ModelWriter:
    config = {"model_type": model_type, **COMMON, **OWN.get(model_type, {}), **fields}
    kept = {name: value for name, value in config.items() if value is not None or "softcapping" in name}
    (folder / "config.json").write_text(json.dumps(kept))
    return ModelWriter(folder, {"model.embed_tokens.weight": (WORDS, 32)}, "f32")


@pytest.mark.parametrize(("model_type", "fields", "said"), FOLDERS)
def test_folders_that_llama_cpp_would_compute_otherwise(tmp_path, model_type, fields, said):
    name = model_type.replace("_moe", "moe")
    written(tmp_path, model_type, {})
    with pytest.raises(Error) as caught:
        written(tmp_path, model_type, fields)
    assert str(caught.value) == f"{tmp_path / 'config.json'}: {said.replace('NAME', name)}"


def test_fields_of_older_folders(tmp_path):
    """Mixtral's experts have one name, and those of Qwen3-MoE two."""
    for given in ({"num_local_experts": None}, {"num_experts": None}):
        assert written(tmp_path, "qwen3_moe", given)._metadata["expert_count"] == 3
    assert written(tmp_path, "gemma2", {"sliding_window": None})._metadata["attention.sliding_window"] == 4096
    assert written(tmp_path, "mixtral", {})._metadata["rope.freq_base"] == 1e6
    assert written(tmp_path, "smollm3", {"no_rope_layers": [1, 1, 1, 0, 1]})._metadata["rope.freq_base"] == 2e6


FILES = [
    ("gemma", {"attention.sliding_window_pattern": ("u32", 2)}, f"has the key 'KEY', {NOT_KNOWN}"),
    ("gemma2", {"attn_logit_softcapping": ("f32", 0.0)}, "'KEY' is 0, by which nothing can be divided; download it "
     "again"),
    ("gemma2", {"attention.sliding_window_pattern": ("u32", 3)}, f"has the key 'KEY', {NOT_KNOWN}"),
    ("gemma2", {"rope.freq_base_swa": ("f32", 500.0)}, f"has the key 'KEY', {NOT_KNOWN}"),
    ("granite", {"rope.scaling.finetuned": ("bool", 0)}, f"'KEY' is false, and only true can be read here; {READ}"),
    ("granite", {"logit_scale": ("f32", 0.0)}, "'KEY' is 0, by which nothing can be divided; download it again"),
    ("granite", {"expert_count": ("u32", 2)}, f"'KEY' is 2, and only 0 can be read here; {READ}"),
    ("olmo2", {"attention.sliding_window": ("u32", 8)}, f"'KEY' is 8, and only 0 can be read here; {READ}"),
    ("qwen2moe", {"expert_weights_scale": ("f32", 2.0)}, f"has the key 'KEY', {NOT_KNOWN}"),
    ("mixtral", {"expert_group_count": ("u32", 2)}, f"'KEY' is 2, and only 0 can be read here; {READ}"),
    ("smollm3", {"attention.scale": ("f32", 2.0)}, f"has the key 'KEY', {NOT_KNOWN}"),
]  # fmt: skip


def refusal(file: File, folder: Path) -> str:
    (folder / "model.gguf").write_bytes(file.bytes())
    with pytest.raises(Error) as caught:
        unpack_gguf(folder / "model.gguf", folder / "unpacked")
    return str(caught.value).removeprefix(f"{folder / 'model.gguf'}: ")


def changed(name: str, keys: dict[str, object]) -> File:
    file = two_layers(name)
    for key, value in keys.items():
        file = file.with_key(f"{name.replace('mixtral', 'llama')}.{key}", value)
    return file


@pytest.mark.parametrize(("name", "keys", "said"), FILES)
def test_what_a_file_may_not_say(tmp_path, name, keys, said):
    key = f"{name.replace('mixtral', 'llama')}.{next(iter(keys))}"
    assert refusal(changed(name, keys), tmp_path) == said.replace("KEY", key)


def test_heads_that_llama_cpp_wants_or_does_not(tmp_path):
    for name in ("qwen2moe", "olmo2"):
        file = two_layers(name)
        kept = [tensor for tensor in file.tensors if tensor.name != "output.weight"]
        assert refusal(replace(file, tensors=kept), tmp_path) == f"lacks the tensor 'output.weight'; {READ}"
    for name in ("gemma", "gemma2"):
        file = two_layers(name)
        more = [*file.tensors, Tensor("output.weight", (WORDS, HIDDEN))]
        assert refusal(replace(file, tensors=more), tmp_path) == (
            f"has the tensor 'output.weight', which is not known in architecture '{name}'; {READ}"
        )


def test_scales_that_a_granite_does_not_name(tmp_path):
    file = two_layers("granite").without("granite.embedding_scale", "granite.residual_scale")
    (tmp_path / "model.gguf").write_bytes(file.with_key("granite.attention.scale", ("f32", 0.0)).bytes())
    unpack_gguf(tmp_path / "model.gguf", tmp_path / "unpacked")
    config = json.loads((tmp_path / "unpacked" / "config.json").read_text())
    found = {name: config[name] for name in config if name.endswith(("multiplier", "scaling"))}
    assert found == {"logits_scaling": 0.5, "attention_multiplier": 0.25, "residual_multiplier": 1.0,
                     "embedding_multiplier": 1.0}  # fmt: skip


def test_caps_that_a_gemma_2_does_not_name(tmp_path):
    named = ("attn_logit_softcapping", "final_logit_softcapping", "attention.sliding_window")
    file = two_layers("gemma2").without(*(f"gemma2.{key}" for key in named))
    (tmp_path / "model.gguf").write_bytes(file.bytes())
    unpack_gguf(tmp_path / "model.gguf", tmp_path / "unpacked")
    config = json.loads((tmp_path / "unpacked" / "config.json").read_text())
    assert [config[name] for name in (*named[:2], "sliding_window")] == [50.0, 30.0, 4096]


def test_a_list_where_a_number_of_experts_is_meant(tmp_path):
    file = two_layers("mixtral").with_key("llama.expert_count", Array("u32", [3, 3]))
    assert refusal(file, tmp_path).startswith("'llama.expert_count' is [3, 3], which is not a whole number from ")
