# SPDX-License-Identifier: Apache-2.0
"""Gemma 4's text as GGUF files, in and out: llama.cpp computes with them what transformers does."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

import mebp
from mebp.cli import main
from mebp.exporter.text_parts import text_config
from mebp.files import read_json
from mebp.gguf.architectures import ARCHITECTURES
from mebp.gguf.metadata import model_metadata
from mebp.gguf.source import unpack_gguf
from support import models
from support.gguf_adapters import IDS, Adapted, check_merged, logits_of, tensors_of, write_gguf
from support.gguf_gemma4 import KINDS, F, W, build
from support.llama_cpp import llama_cpp  # noqa: F401

# llama.cpp looks the GELU up in a table of 16-bit numbers.
TOLERANCE = 5e-4
ROPE = {F: {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.6},
        W: {"rope_type": "default", "rope_theta": 70.0}}  # fmt: skip
SIZES = {"hidden_size": 64, "intermediate_size": 120, "num_attention_heads": 2, "num_key_value_heads": 2,
         "head_dim": 48, "global_head_dim": 20, "max_position_embeddings": 96, "rms_norm_eps": 0.1, "sliding_window": 7,
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
    "no inputs of layers, and shared keys": (
        "small", {"hidden_size_per_layer_input": 0, "final_logit_softcapping": 30.0}),
    "inputs of layers, and no shared keys": ("small", {"num_kv_shared_layers": 0}),
    "one layer shares": ("small", {"num_kv_shared_layers": 1, "layer_types": [W, W, F, W, F, F]}),
    "all of a head turns": ("dense", {"rope_parameters": {**ROPE, F: {"rope_type": "default", "rope_theta": 1e4}}}),
}  # fmt: skip


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


# No file that is written has it: of 2023.
UNWRITTEN = {"rope.scale_linear"}
# Positions are scaled in none.
UNSCALED = {"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
            "rope.scaling.attn_factor"}  # fmt: skip


def test_each_key_is_tried(tmp_path):
    """Two values of each that is read are in the files above, or it is missing in some."""
    found: dict[str, set[str]] = {}
    for kind, fields in CASES.values():
        family, own = KINDS[kind]
        models.configure(family, **deepcopy({**own, **fields})).save_pretrained(tmp_path)
        config = text_config(read_json(tmp_path / "config.json", ""))
        metadata = model_metadata(ARCHITECTURES["gemma4_text"], config, tmp_path / "config.json")
        for key in ARCHITECTURES["gemma4_text"].keys.read:
            found.setdefault(key, set()).add(str(metadata.get(key)))
    assert {key for key, values in found.items() if len(values) < 2} == UNWRITTEN | UNSCALED


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_model_is_what_llama_cpp_computes(tmp_path, kind, llama_cpp, show):  # noqa: F811
    """And what is exported of the file again, and the text that it writes."""
    difference = check_merged(build(kind), tmp_path, llama_cpp, TOLERANCE, 20 * TOLERANCE)
    show(f"{kind} merged: logits of llama.cpp within {difference:.1e} of the session's")
    mebp.merge(tmp_path / "model.mebp", tmp_path / "adapter", tmp_path / "folder")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "folder").eval()
    expected = mebp.Session(tmp_path / "again.mebp").logits(IDS[None])[0]
    assert np.abs(logits_of(merged, IDS) - expected).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_goes_there_and_back(tmp_path, kind, llama_cpp, show):  # noqa: F811
    adapted = Adapted(
        tmp_path, build(kind), target_modules="all-linear", exclude_modules=["per_layer_model_projection"]
    )
    written, back = tmp_path / "adapter.gguf", tmp_path / "back"
    given = ["adapter", "convert", str(adapted.adapter), "--to", "gguf", "-o", str(written), "--base"]
    assert main([*given, str(adapted.base)]) == 0
    difference = np.abs(llama_cpp.logits(adapted.file, IDS, written) - adapted.logits).max()
    show(f"adapter of {kind}: logits of llama.cpp within {difference:.1e}")
    assert difference < TOLERANCE
    assert np.abs(adapted.plain - adapted.logits).max() > 20 * TOLERANCE
    adapted.check_back(written, back)


def test_llama_cpp_does_not_adapt_what_makes_the_inputs_of_layers(tmp_path, llama_cpp, capsys):  # noqa: F811
    """It would leave that out without a word, so it is refused."""
    adapted = Adapted(tmp_path, build("small"), target_modules="all-linear")
    given = ["adapter", "convert", str(adapted.adapter), "--to", "gguf", "-o", str(tmp_path / "a.gguf"), "--base"]
    assert main([*given, str(adapted.base)]) == 2
    said = capsys.readouterr().err.strip()
    assert said.endswith(
        "adapts 'model.per_layer_model_projection', which llama.cpp computes without adapters; train the adapter "
        "without it, or merge it"
    )
    assert not (tmp_path / "a.gguf").exists()
