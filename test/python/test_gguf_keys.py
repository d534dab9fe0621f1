# SPDX-License-Identifier: Apache-2.0
"""Keys of a GGUF file that are not what they have to be: each refusal names the file and the key."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.gguf.architectures import ARCHITECTURES
from mebp.gguf.metadata import model_metadata
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from support.gguf_files import Array, Raw, Tensor
from support.gguf_models import decoder

LLAMA = decoder("llama")
EMBEDDING = "token_embd.weight"
WHOLE = "which is not a whole number from 1 to 2147483647"
LONG = Array("u8", [1] * 100)
KEYS = [
    ("general.architecture", ("u32", 3), "'general.architecture' is 3, which is not a text"),
    ("general.type", LONG, "'general.type' is [1, 1, 1, 1, 1, 1, ...], which is not a text"),
    ("general.alignment", ("i32", -32), "'general.alignment' is -32, which is not a power of two"),
    ("llama.block_count", ("f32", 1.0), f"'llama.block_count' is 1.0, {WHOLE}"),
    ("llama.context_length", ("u64", 1 << 63), f"'llama.context_length' is 9223372036854775808, {WHOLE}"),
    ("llama.attention.head_count", Array("u32", [2]), f"'llama.attention.head_count' is [2], {WHOLE}"),
    ("llama.attention.head_count_kv", ("bool", 1), f"'llama.attention.head_count_kv' is True, {WHOLE}"),
    ("llama.attention.layer_norm_rms_epsilon", ("f32", float("nan")),
     "'llama.attention.layer_norm_rms_epsilon' is nan, which is not a number from 0 on"),
    ("llama.rope.freq_base", ("f32", 0.0), "'llama.rope.freq_base' is 0.0, which is not a number from 1 on"),
    ("llama.embedding_length", ("u32", 64),
     "'llama.embedding_length' is 64, and tensor 'token_embd.weight' has rows of 32"),
    ("llama.attention.key_length", ("u32", 1 << 20), "'llama.attention.key_length' and 'llama.rope.dimension_count' "
     "make heads of 1048576 with positions in 16, which cannot be"),
    ("tokenizer.ggml.tokens", "text", "'tokenizer.ggml.tokens' is 'text', which is not a list of texts"),
    ("tokenizer.ggml.token_type", Array("i32", [3]), "'tokenizer.ggml.token_type' has 1 entries for 300 tokens"),
    ("tokenizer.ggml.merges", Array("u8", [3]), "'tokenizer.ggml.merges' is [3], which is not a list of texts"),
    ("tokenizer.ggml.pre", Array("string", ["a"]), "'tokenizer.ggml.pre' is ['a'], which is not a text"),
    ("tokenizer.ggml.eos_token_id", ("i32", -1),
     "'tokenizer.ggml.eos_token_id' is -1, which is not a whole number from 0 to 299"),
    ("tokenizer.ggml.add_bos_token", ("u32", 1), "'tokenizer.ggml.add_bos_token' is 1, which is not true or false"),
    ("tokenizer.chat_template", ("u32", 1), "'tokenizer.chat_template' is 1, which is not a text"),
    ("any", Raw(b"\x63\0\0\0"), "'any' has the unknown type 99"),
    ("any", Array("array", [Array("u8", [1])]), "'any' has the unknown type 9"),
]  # fmt: skip


def refusal(content: bytes, folder: Path) -> str:
    file = folder / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(Error) as caught:
        unpack_gguf(file, folder / "unpacked")
    line = str(caught.value)
    assert line.startswith(f"{file}: ")
    return line.removeprefix(f"{file}: ")


@pytest.mark.parametrize(("key", "value", "said"), KEYS)
def test_values_that_cannot_be(key, value, said, tmp_path):
    assert refusal(LLAMA.with_key(key, value).bytes(), tmp_path) == f"{said}; download it again"


@pytest.mark.parametrize("key", ["general.architecture", "llama.block_count", "tokenizer.ggml.tokens"])
def test_keys_that_are_missing(key, tmp_path):
    assert refusal(LLAMA.without(key).bytes(), tmp_path) == f"lacks '{key}'; download it again"


def test_keys_that_are_there_twice(tmp_path):
    twice = replace(LLAMA, keys=[*LLAMA.keys, ("general.name", "other")])
    assert refusal(twice.bytes(), tmp_path) == "has 'general.name' twice; download it again"


def test_names_and_numbers_that_no_model_has(tmp_path):
    content = LLAMA.with_key("a" * 300, ("u8", 1)).bytes()
    assert re.fullmatch("has a name of 300 bytes at byte [0-9]+, and 256 are read at most; download it again",
                        refusal(content, tmp_path))  # fmt: skip
    many = LLAMA.with_key("any", Array("u8", [0] * (9 << 20)))
    assert refusal(many.bytes(), tmp_path) == (
        "its header promises 9,437,785 entries or bytes where 8,388,608 are read at most; download it again"
    )


def test_layers_that_are_not_in_the_file(tmp_path):
    assert refusal(LLAMA.with_key("llama.block_count", ("u32", 1 << 30)).bytes(), tmp_path) == (
        "'llama.block_count' is 1073741824, and the file has tensors of 1 layers; give a file with the whole model"
    )


def with_tensor(which: str, **fields: object) -> bytes:
    tensors = [replace(each, **fields) if each.name == which else each for each in LLAMA.tensors]
    return replace(LLAMA, tensors=tensors).bytes()


def test_tensors_in_the_same_bytes(tmp_path):
    """Else a small file could ask for any number of copies of one tensor."""
    place = 300 * 34  # behind the embedding
    assert refusal(with_tensor("blk.0.attn_v.weight", offset=place), tmp_path) == (
        "tensors 'blk.0.attn_v.weight' and 'output_norm.weight' lie in the same bytes; download it again"
    )


def test_tensors_of_no_values(tmp_path):
    assert refusal(with_tensor("output_norm.weight", shape=(0,)), tmp_path) == (
        "tensor 'output_norm.weight' has the impossible shape [0]; download it again"
    )
    assert refusal(with_tensor("output_norm.weight", content=b"\xff" * 128), tmp_path) == (
        "tensor 'output_norm.weight' has values that are not finite; download it again"
    )
    assert refusal(with_tensor(EMBEDDING, name="rope_freqs.weight"), tmp_path) == (
        f"has no matrix '{EMBEDDING}'; give the file of a whole model"
    )


@pytest.mark.parametrize("factors", [(8,), (9,), (300, 32)])
def test_factors_of_other_positions(factors, tmp_path):
    tensors = [*LLAMA.tensors, Tensor("rope_freqs.weight", factors)]  # zeros
    assert refusal(replace(LLAMA, tensors=tensors).bytes(), tmp_path) == (
        "has factors of positions (rope_freqs.weight) that are not those of Llama 3; export the model's Hugging Face "
        "folder"
    )


def test_tensors_that_its_keys_do_not_make(tmp_path):
    up = "blk.0.ffn_up.weight"
    assert refusal(with_tensor(up, shape=(32, 32)), tmp_path) == (
        f"tensor '{up}' has the shape [32, 32], and by the file's keys it is [64, 32]; download it again"
    )
    lacking = [each for each in LLAMA.tensors if each.name != up]
    assert refusal(replace(LLAMA, tensors=lacking).bytes(), tmp_path) == f"lacks the tensor '{up}'; download it again"
    for name, said in [
        ("blk.0.attn_norm.bias", "has the tensor 'blk.0.attn_norm.bias', which is not known in architecture 'llama'; "
         "export the model's Hugging Face folder"),
        ("blk.0.attn_q.bias", "lacks the tensor 'blk.0.attn_k.bias'; download it again"),
    ]:  # fmt: skip
        tensors = [*LLAMA.tensors, Tensor(name, (32,))]
        assert refusal(replace(LLAMA, tensors=tensors).bytes(), tmp_path) == said


def test_a_model_with_all_its_biases(tmp_path):
    shapes = {"attn_q": 32, "attn_k": 32, "attn_v": 32, "attn_output": 32, "ffn_gate": 64, "ffn_up": 64, "ffn_down": 32}
    tensors = [*LLAMA.tensors, *(Tensor(f"blk.0.{name}.bias", (rows,)) for name, rows in shapes.items())]
    (tmp_path / "model.gguf").write_bytes(replace(LLAMA, tensors=tensors).bytes())
    unpack_gguf(tmp_path / "model.gguf", tmp_path / "unpacked")
    config = json.loads((tmp_path / "unpacked" / "config.json").read_text())
    assert config["attention_bias"] and config["mlp_bias"]


@pytest.mark.parametrize("part", [1, 2])
def test_one_of_several_files(part, tmp_path):
    place = tmp_path / f"model-0000{part}-of-00002.gguf"
    place.write_bytes(LLAMA.with_key("split.count", ("u16", 2)).bytes())
    with pytest.raises(Error) as caught:
        unpack_gguf(place, tmp_path / "unpacked")
    assert str(caught.value) == (
        f"{place}: is one of 2 files that make a model; join them with llama.cpp's llama-gguf-split --merge "
        "model-00001-of-00002.gguf NEW.gguf, and give the new file"
    )


def test_a_window_that_llama_cpp_ends_with(tmp_path):
    file = decoder("gemma3").with_key("gemma3.attention.sliding_window_pattern", ("u32", 1))
    file = file.without("gemma3.rope.scaling.type", "gemma3.rope.scaling.factor")
    assert refusal(file.bytes(), tmp_path) == (
        "'gemma3.attention.sliding_window_pattern' is 1, which llama.cpp cannot compute; export the model's Hugging "
        "Face folder"
    )


CONFIG = {"model_type": "llama", "max_position_embeddings": 64, "hidden_size": 32, "num_hidden_layers": 1,
          "intermediate_size": 64, "num_attention_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 3}  # fmt: skip
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": BYTES}


@pytest.mark.parametrize(
    ("fields", "tokenizer", "said"),
    [
        ({"model_type": ["llama"]}, {}, "config.json: model type ['llama'] cannot be written as GGUF here; "),
        ({"vocab_size": 1 << 31}, {}, "config.json: vocab_size is 2147483648, and no model has more than 16777216 "),
        ({"num_attention_heads": 0}, {},
         "config.json: 'num_attention_heads' is 0, which is not a whole number from 1 on"),
        ({"hidden_size": 32.0}, {}, "config.json: 'hidden_size' is 32.0, which is not a whole number from 1 on"),
        ({"head_dim": "x"}, {}, "config.json: 'head_dim' is 'x', which is not a whole number from 1 on"),
        ({"rms_norm_eps": "1e-5"}, {}, "config.json: 'rms_norm_eps' is '1e-5', which is not a number from 0 on"),
        ({"hidden_act": ["silu"]}, {}, "config.json: 'hidden_act' is ['silu'], which is not a text"),
        ({"layer_types": [1]}, {}, "config.json: 'layer_types' is [1], which is not a list of texts"),
        ({"rope_parameters": [1]}, {}, "config.json: 'rope_parameters' is [1], which is not a JSON object"),
        ({"rope_scaling": {"type": 1}}, {}, "config.json: 'type' is 1, which is not a text"),
        ({"rope_parameters": {"full_attention": 1}}, {},
         "config.json: 'full_attention' is 1, which is not a JSON object"),
        ({"rope_parameters": {"rope_type": "yarn"}}, {},
         "config.json: has positions of type 'yarn', and lacks their number 'factor'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": "4"}}, {},
         "config.json: 'factor' is '4', which is not a number from 0 on"),
        ({}, {"model": [1]}, "tokenizer.json: 'model' is [1], which is not a JSON object"),
        ({}, {"model": {"type": "BPE", "merges": []}}, "tokenizer.json: its model lacks 'vocab'"),
        ({}, {"model": {**TOKENIZER["model"], "merges": [["a"]]}},
         "tokenizer.json: 'merges' is [['a']], which is not a list of pairs of texts"),
        ({}, {"added_tokens": [3]},
         "tokenizer.json: 'added_tokens' is [3], which is not a list of tokens, each with an id and its content"),
        ({}, {"model": {**TOKENIZER["model"], "vocab": {"a": "0"}}},
         "tokenizer.json: 'vocab' is {'a': '0'}, which is not the tokens with their numbers"),
        ({}, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": 3}},
         "tokenizer.json: is not as tokenizers writes it"),
    ],
)  # fmt: skip
def test_folders_that_cannot_be_written_as_gguf(fields, tokenizer, said, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | fields))
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER | tokenizer))
    with pytest.raises(Error) as caught:
        ModelWriter(tmp_path, {"model.embed_tokens.weight": (3, 32)}, "f32")
    advice = "" if said.endswith(" ") else "; export and compile the model again"
    assert str(caught.value).startswith(f"{tmp_path}/{said}{advice}")
    assert advice in ("", str(caught.value)[-len(advice) :])


GEMMA = {**CONFIG, "model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 16, "query_pre_attn_scalar": 16,
         "sliding_window": 8, "hidden_activation": "gelu_pytorch_tanh"}  # fmt: skip
FULL, WINDOW = "full_attention", "sliding_attention"
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 16}


def of_gemma(folder: Path, **fields: object) -> ModelWriter:
    (folder / "config.json").write_text(json.dumps(GEMMA | fields))
    return ModelWriter(folder, {"model.embed_tokens.weight": (3, 32)}, "f32")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"layer_types": [FULL, *[WINDOW] * 5]}, "has layers with a window in an order that llama.cpp does not know"),
        ({"query_pre_attn_scalar": 8}, "has query_pre_attn_scalar 8, and llama.cpp computes 16 in 'gemma3'"),
        ({"attn_logit_softcapping": 5.0}, "has attn_logit_softcapping, which llama.cpp does not compute in 'gemma3'"),
        ({"rope_parameters": {FULL: {**YARN, "attention_factor": 2.0}}}, "has an attention_factor of its own in its "
         "positions, which llama.cpp computes in layers with a window, too"),
        ({"rope_parameters": {WINDOW: {"rope_type": "linear", "factor": 2.0}}}, "has positions of type 'linear' in "
         "layers with a window, where llama.cpp scales none"),
    ],
)  # fmt: skip
def test_a_gemma_that_llama_cpp_would_compute_otherwise(fields, said, tmp_path):
    with pytest.raises(Error) as caught:
        of_gemma(tmp_path, **fields)
    advice = "write a folder for transformers instead (-o DIR)"
    assert str(caught.value) == f"{tmp_path / 'config.json'}: {said}; {advice}"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, {"rope.freq_base", "attention.sliding_window"}),
        ({"sliding_window_pattern": 2}, {"rope.freq_base", "attention.sliding_window",
                                         "attention.sliding_window_pattern"}),
        ({"rope_local_base_freq": 500.0}, {"rope.freq_base", "attention.sliding_window", "rope.freq_base_swa"}),
        ({"layer_types": [FULL] * 6, "rope_parameters": {FULL: YARN}},
         {"rope.freq_base", "attention.sliding_window", "rope.scaling.type", "rope.scaling.factor",
          "rope.scaling.original_context_length"}),
    ],
)  # fmt: skip
def test_a_gemma_in_keys(fields, said, tmp_path):
    keys = {key for key in of_gemma(tmp_path, **fields).keys if "window" in key or "rope" in key}
    assert keys == {*said, "rope.dimension_count"}


@pytest.mark.parametrize(("config", "usual"), [(CONFIG, 1e4), (GEMMA, 1e6)])
def test_positions_of_a_folder_that_does_not_name_their_base(config, usual, tmp_path):
    for given, expected in (({}, usual), ({"rope_theta": 500.0}, 500.0)):
        found = model_metadata(ARCHITECTURES[config["model_type"]], config | given, tmp_path / "config.json")
        assert found["rope.freq_base"] == expected


def test_a_folder_that_can_be_written_as_gguf(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    assert ModelWriter(tmp_path, {"model.embed_tokens.weight": (3, 32)}, "f32").bytes == 3 * 32 * 4
