# SPDX-License-Identifier: Apache-2.0
"""Gemma 4's text as GGUF files, in and out: llama.cpp computes with them what transformers does."""

import shutil
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

import mebp
from mebp.cli import main
from mebp.exporter.text_parts import text_config
from mebp.files import read_json
from mebp.gguf.architectures import ARCHITECTURES
from mebp.gguf.codes import kept_codes, storage_options
from mebp.gguf.container import read_container
from mebp.gguf.metadata import model_metadata
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from mebp.verification.inputs import randomise_adapter
from support import models
from support.llama_cpp import llama_cpp  # noqa: F401
from support.pipeline import make_bundle

# llama.cpp looks the GELU up in a table of 16-bit numbers.
TOLERANCE = 4e-3
IDS = np.random.default_rng(0).integers(3, 330, 40)
W, F = "sliding_attention", "full_attention"
# Those of 31B, of E2B and of 26B-A4B: llama.cpp shares the keys of the last two layers that have some.
KINDS: dict[str, tuple[str, dict]] = {
    "dense": ("gemma4_experts", {"enable_moe_block": False, "attention_k_eq_v": True, "num_global_key_value_heads": 1}),
    "small": ("gemma4_small", {"layer_types": [W, W, F, W, W, F]}),
    "experts": ("gemma4_experts", {"attention_k_eq_v": True, "num_global_key_value_heads": 1}),
}
ROPE = {F: {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.6},
        W: {"rope_type": "default", "rope_theta": 70.0}}  # fmt: skip
SIZES = {"hidden_size": 64, "intermediate_size": 120, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 48,
         "global_head_dim": 20, "max_position_embeddings": 96, "rms_norm_eps": 0.1, "sliding_window": 7,
         "final_logit_softcapping": 2.0, "num_hidden_layers": 4, "layer_types": [W, F, W, F],
         "tie_word_embeddings": False}  # fmt: skip
OTHERS: dict[str, dict] = {
    "dense": {"attention_k_eq_v": False, "num_global_key_value_heads": None},
    "small": {"num_kv_shared_layers": 2, "use_double_wide_mlp": False, "hidden_size_per_layer_input": 10},
    "experts": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 40, "num_global_key_value_heads": 2},
}
CASES = {
    **{kind: (kind, {}) for kind in KINDS},
    **{f"other sizes of {kind}": (kind, {**SIZES, **OTHERS[kind], "rope_parameters": ROPE}) for kind in KINDS},
    "no inputs of layers, and shared keys": ("small", {"hidden_size_per_layer_input": 0, "final_logit_softcapping": 30.0}),
    "inputs of layers, and no shared keys": ("small", {"num_kv_shared_layers": 0}),
    "one layer shares": ("small", {"num_kv_shared_layers": 1, "layer_types": [W, W, F, W, F, F]}),
    "all layers attend to all": ("dense", {"layer_types": [F, F, F]}),
    "all of a head turns": ("dense", {"rope_parameters": {**ROPE, F: {"rope_type": "default", "rope_theta": 1e4}}}),
}  # fmt: skip


def build(kind: str, **fields: object) -> PreTrainedModel:
    family, own = KINDS[kind]
    model = models.build(family, **deepcopy({**own, **fields}))
    choose = torch.Generator().manual_seed(5)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.copy_(0.7 + 0.6 * torch.rand(1, generator=choose))
    return model


def tensors_of(model: PreTrainedModel) -> dict[str, np.ndarray]:
    tied = model.config.tie_word_embeddings
    return {
        name: values.numpy() for name, values in model.state_dict().items() if not (tied and name == "lm_head.weight")
    }


def write_gguf(model: PreTrainedModel, folder: Path, dtype: str = "f32") -> Path:
    models.save(model, folder / "source")
    tensors = tensors_of(model)
    writer = ModelWriter(folder / "source", {name: values.shape for name, values in tensors.items()}, dtype)
    writer.write(folder / "model.gguf", tensors.values(), "tiny")
    return folder / "model.gguf"


def logits_of(model: PreTrainedModel, ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids)[None]).logits[0].numpy()


def check_back(file: Path, folder: Path, model: PreTrainedModel) -> None:
    unpack_gguf(file, folder / "unpacked")
    found, own = load_file(folder / "unpacked" / "model.safetensors"), tensors_of(model)
    assert found.keys() == own.keys()
    assert [name for name in own if not np.array_equal(found[name], own[name])] == []
    again, report = AutoModelForCausalLM.from_pretrained(folder / "unpacked", output_loading_info=True)
    assert not any(report.values()), report
    assert np.abs(logits_of(again.eval(), IDS) - logits_of(model, IDS)).max() < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_a_model_goes_there_and_back(tmp_path, case, llama_cpp, show):  # noqa: F811
    kind, fields = CASES[case]
    model = build(kind, **fields)
    file, expected = write_gguf(model, tmp_path), logits_of(model, IDS)
    difference = np.abs(llama_cpp.logits(file, IDS) - expected).max()
    show(f"{case}: logits of llama.cpp within {difference:.1e} of {np.abs(expected).max():.1f}")
    check_back(file, tmp_path, model)
    assert difference < TOLERANCE
