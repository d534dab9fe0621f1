# SPDX-License-Identifier: Apache-2.0
"""Model types whose layers all attend as GGUF files, in and out: llama.cpp computes what transformers does."""

from copy import deepcopy

import numpy as np
import pytest

from mebp.cli import main
from mebp.exporter.text_parts import text_config
from mebp.files import read_json
from mebp.gguf.architectures import ARCHITECTURES
from mebp.gguf.container import read_container
from mebp.gguf.metadata import model_metadata
from support import models
from support.gguf_adapters import IDS, Adapted, check_merged, check_there_and_back, write_gguf
from support.gguf_families import EXPERTS, FAMILIES, build
from support.llama_cpp import llama_cpp  # noqa: F401

TOLERANCE = 2e-4
OF_GELU = 5e-3  # ggml looks it up in a table of halves
FULL, WINDOW = "full_attention", "sliding_attention"
SIZES = {"hidden_size": 64, "intermediate_size": 120, "num_hidden_layers": 6, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 96, "rms_norm_eps": 0.1,
         "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
         "shared_expert_intermediate_size": 88, "query_pre_attn_scalar": 32, "no_rope_layers": None}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16,
        "attention_factor": 1.5}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 1e5, "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
SCALES = {"embedding_multiplier": 0.5, "residual_multiplier": 2.0, "attention_multiplier": 0.125, "logits_scaling": 2.0}
CASES: dict[str, tuple[str, dict]] = {
    **{family: (family, {}) for family in FAMILIES},
    **{f"other sizes of {family}": (family, {**SIZES, "layer_types": None}) for family in FAMILIES},
    **{f"yarn in {family}": (family, {"rope_parameters": YARN}) for family in FAMILIES},
    **{f"linear positions in {family}": (family, {"rope_parameters": LINEAR}) for family in FAMILIES},
    "heads of Gemma wider than its states": ("gemma", {"head_dim": 40}),
    "activation of older Gemmas": ("gemma", {"hidden_act": "gelu"}),
    "another window and other caps": (
        "gemma2", {"sliding_window": 7, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 5.0}),
    "the usual window": ("gemma2", {"sliding_window": 4096}),
    "as many layers as 27B": ("gemma2", {"num_hidden_layers": 46, "layer_types": None, "head_dim": 40}),
    "positions of Llama 3": ("mixtral", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "queries without biases": ("qwen2_moe", {"qkv_bias": False}),
    "experts and a tied head": ("qwen3_moe", {"tie_word_embeddings": True}),
    "a tied head": ("smollm3", {"tie_word_embeddings": True}),
    "other scales": ("granite", {**SCALES, "tie_word_embeddings": True}),
    "biases in all layers": ("granite", {"attention_bias": True, "mlp_bias": True}),
}  # fmt: skip


def tolerance(family: str) -> float:
    return OF_GELU if "gemma" in family else TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_a_model_goes_there_and_back(tmp_path, case, llama_cpp):  # noqa: F811
    family, fields = CASES[case]
    check_there_and_back(build(family, **fields), tmp_path, llama_cpp, tolerance(family))


def test_each_key_is_tried(tmp_path):
    """Two values of each that is read are in the files above, or it is missing in some."""
    found: dict[str, dict[str, set[str]]] = {}
    for family, fields in CASES.values():
        base, own = FAMILIES[family]
        models.configure(base, **deepcopy({**own, **fields})).save_pretrained(tmp_path)
        config = text_config(read_json(tmp_path / "config.json", ""))
        metadata = model_metadata(ARCHITECTURES[family], config, tmp_path / "config.json")
        for key in ARCHITECTURES[family].keys.read:
            found.setdefault(family, {}).setdefault(key, set()).add(str(metadata.get(key)))
    assert found.keys() == FAMILIES.keys()
    for family, keys in found.items():
        same = {key for key, values in keys.items() if len(values) < 2}
        assert same <= {"rope.scale_linear"}, family  # no file that is written has it


@pytest.mark.parametrize("family", FAMILIES)
def test_a_merged_model_is_what_llama_cpp_computes(tmp_path, family, llama_cpp, show):  # noqa: F811
    """And what is exported of the file again, and the text that it writes."""
    difference = check_merged(build(family), tmp_path, llama_cpp, tolerance(family), 10 * tolerance(family))
    show(f"{family} merged: logits of llama.cpp within {difference:.1e} of the session's")


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_goes_there_and_back(tmp_path, family, llama_cpp, show):  # noqa: F811
    # all-linear is for the experts, too, whose adapters no GGUF file has.
    chosen = ["q_proj", "k_proj", "v_proj", "o_proj", *(["shared_expert_gate"] if family == "qwen2_moe" else [])]
    adapted = Adapted(tmp_path, build(family), target_modules=chosen if family in EXPERTS else "all-linear")
    written, back = tmp_path / "adapter.gguf", tmp_path / "back"
    given = ["adapter", "convert", str(adapted.adapter), "--to", "gguf", "-o", str(written), "--base"]
    assert main([*given, str(adapted.base)]) == 0
    difference = np.abs(llama_cpp.logits(adapted.file, IDS, written) - adapted.logits).max()
    show(f"adapter of {family}: logits of llama.cpp within {difference:.1e}")
    assert difference < tolerance(family)
    assert np.abs(adapted.plain - adapted.logits).max() > 10 * tolerance(family)
    adapted.check_back(written, back)
    first = written.read_bytes()
    written.unlink()
    assert main([*given, str(adapted.file)]) == 0
    assert written.read_bytes() == first


def test_types(tmp_path, llama_cpp):  # noqa: F811
    """Routers stay in f32, which llama.cpp wants."""
    for family in EXPERTS:
        (folder := tmp_path / family).mkdir()
        container = read_container(write_gguf(build(family, hidden_size=64, num_attention_heads=2, head_dim=32), folder,
                                              "q8_0"))  # fmt: skip
        kinds = {tensor.name.split(".", 2)[-1]: tensor.kind for tensor in container.tensors}
        assert {kinds["ffn_gate_inp.weight"], kinds.get("ffn_gate_inp_shexp.weight", "F32")} == {"F32"}
        assert {kinds["ffn_up_exps.weight"], kinds["attn_q.weight"]} == {"Q8_0"}
        assert np.isfinite(llama_cpp.logits(container.path, IDS)).all()
