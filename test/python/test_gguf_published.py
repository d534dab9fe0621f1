# SPDX-License-Identifier: Apache-2.0
"""Published configurations of models as GGUF files, without their numbers: what is written of one is what is asked for
where the file is read."""

import json
from pathlib import Path

import pytest
import torch
from parts.public_shapes import SHAPES, configuration
from transformers import AutoModelForCausalLM

from mebp.gguf.architectures import architecture_in, architecture_of
from mebp.gguf.container import Container, StoredTensor
from mebp.gguf.metadata import model_config
from mebp.gguf.model import ModelWriter
from mebp.gguf.shapes import expected_tensors

NAMES = ["Gemma-4-E2B", "Gemma-4-E4B", "Gemma-4-26B-A4B", "Gemma-4-31B", "LFM2-1.2B", "LFM2-8B-A1B",
         "Qwen3.5-27B", "Qwen3.5-35B-A3B", "Qwen3-Next-80B-A3B", "Gemma-2-2B", "Gemma-2-9B", "Granite-3.3-2B",
         "Mixtral-8x7B", "OLMo-2-7B", "Qwen3-30B-A3B", "SmolLM3-3B"]  # fmt: skip


def shapes_of(name: str) -> dict[str, tuple[int, ...]]:
    config = configuration(SHAPES[name]).get_text_config()
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    return {each: tuple(values.shape) for each, values in model.state_dict().items() if each not in tied}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_what_is_read(tmp_path: Path, name: str) -> None:
    fields = SHAPES[name]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    shapes = shapes_of(name)
    writer = ModelWriter(tmp_path, shapes, "q8_0")
    architecture = architecture_of(configuration(fields).get_text_config().model_type, name)
    written = {there: shape for each in shapes for there, shape, _ in writer._tensors(each)}
    metadata = {f"{architecture.name}.{key}": value for key, value in writer._metadata.items()}
    metadata["general.architecture"] = architecture.name
    tensors = [StoredTensor(each, "F32", shape, 0, 0) for each, shape in written.items()]
    container = Container(tmp_path / "model.gguf", metadata, tensors)
    assert architecture_in(container).model_type == architecture.model_type
    config = model_config(architecture, container)
    assert expected_tensors(architecture, config) == written
    # It is the same model to transformers.
    again = configuration({**config, "dtype": "float32"})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(again)
    assert {each: tuple(values.shape) for each, values in model.state_dict().items() if each in shapes} == shapes
    own = configuration(fields).get_text_config()
    for field in ("layer_types", "max_position_embeddings", "num_experts_per_tok"):
        assert getattr(again, field, None) == getattr(own, field, None), field
    for kind in ("full_attention", "sliding_attention"):
        ropes = (each.rope_parameters.get(kind, each.rope_parameters) for each in (again, own))
        assert len({rope["rope_theta"] for rope in ropes}) == 1, kind


def test_numbers_that_readers_take_from_it(tmp_path: Path) -> None:
    found = {}
    for name in NAMES:
        (tmp_path / "config.json").write_text(json.dumps(SHAPES[name]))
        found[name] = ModelWriter(tmp_path, {}, "f32")._metadata
    assert found["Gemma-4-E2B"]["feed_forward_length"] == [6144] * 15 + [12288] * 20
    assert found["Gemma-4-E2B"]["attention.head_count_kv"] == 1
    assert found["Gemma-4-E4B"]["attention.shared_kv_layers"] == 18
    assert found["Gemma-4-31B"]["attention.head_count_kv"][:6] == [16] * 5 + [4]
    assert found["Gemma-4-26B-A4B"]["expert_used_count"] == 8
    gemma = {each["attention.key_length"] for name, each in found.items() if "Gemma-4" in name}
    assert gemma == {512}
    assert found["LFM2-1.2B"]["feed_forward_length"] == 8192  # of 12,288, which is adjusted
    assert found["LFM2-1.2B"]["attention.head_count_kv"][:4] == [0, 0, 8, 0]
    assert found["LFM2-8B-A1B"]["leading_dense_block_count"] == 2
    assert found["Qwen3.5-27B"]["rope.dimension_sections"] == [11, 11, 10, 0]
    assert found["Qwen3.5-27B"]["rope.dimension_count"] == 64
    assert found["Qwen3-Next-80B-A3B"]["ssm.inner_size"] == 4096
    assert {each["full_attention_interval"] for name, each in found.items() if "full_attention_interval" in each} == {4}
    assert found["Mixtral-8x7B"]["expert_count"] == 8 and found["Mixtral-8x7B"]["expert_used_count"] == 2
    gemma = found["Gemma-2-9B"]
    assert (gemma["attn_logit_softcapping"], gemma["attention.sliding_window"]) == (50, 4096)
    assert found["Qwen3-30B-A3B"]["expert_feed_forward_length"] == 768
    assert found["SmolLM3-3B"]["rope.freq_base"] == 5e6
    granite = ("embedding_scale", "residual_scale", "attention.scale", "logit_scale")
    assert [found["Granite-3.3-2B"][key] for key in granite] == [12, 0.22, 0.015625, 8]
