# SPDX-License-Identifier: Apache-2.0
"""The library writes the GGUF adapter that `mebp adapter convert` writes, and llama.cpp computes with it what the
session does."""

from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedModel

import mebp
from mebp.errors import Error
from mebp.exporter.packaged import unpack
from mebp.gguf.model import ModelWriter
from mebp.tensor_names import is_of_model
from mebp.verification.inputs import randomise_adapter
from support import models, whole_models
from support.gguf_adapters import IDS, write_gguf
from support.library import save_adapter_gguf
from support.llama_cpp import LlamaCpp, llama_cpp  # noqa: F401
from support.pipeline import make_bundle

TOLERANCE = 1e-4
OF_GELU = 5e-3  # as in test_adapter_conversion.py
# llama.cpp has value heads as wide as key heads, and several for a key head in another order.
DELTA = {"linear_value_head_dim": 12, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
         "full_attention_interval": 2, "head_dim": 32}  # fmt: skip
FAMILIES: dict[str, dict] = {
    "llama": {},
    "mistral": {},
    "qwen3_moe": {"mlp_only_layers": [], "norm_topk_prob": True},
    "qwen2": {},
    "qwen3": {},
    "phi3": {},
    "gpt2_tanh": {"vocab_size": 333},
    "gemma2": {},
    "lfm2": {},
    "qwen3_5_text": DELTA,
    "qwen3_next": DELTA,
}


class Written:
    """The adapter that a session has at random, as a folder of PEFT's, and as the library and Python write it."""

    def __init__(self, model: PreTrainedModel, folder: Path, **options: object) -> None:
        self.bundle = make_bundle(model, folder, seq_len=48, weights="f32", **options)
        self.session = mebp.Session(self.bundle)
        randomise_adapter(self.session)
        self.adapter, self.file, self.other = (folder / name for name in ("adapter", "own.gguf", "python.gguf"))
        self.session.save_adapter(self.adapter)
        self.base = models.save(model, folder / "base")

    def by_library(self) -> bytes:
        save_adapter_gguf(self.bundle, self.adapter, self.file)
        return self.file.read_bytes()

    def by_python(self) -> bytes:
        mebp.convert_adapter(self.adapter, self.other, "gguf", base=self.base)
        return self.other.read_bytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_file_is_python_s_and_llama_cpp_computes_with_it(tmp_path, family, llama_cpp, show):  # noqa: F811
    model = models.build(family, **FAMILIES[family])
    written = Written(model, tmp_path, lora=mebp.LoRA(rank=4, alpha=10))
    assert written.by_library() == written.by_python()
    file, expected = write_gguf(model, tmp_path), written.session.logits(IDS[None])[0]
    plain, found = llama_cpp.logits(file, IDS), llama_cpp.logits(file, IDS, written.file)
    difference = np.abs(found - expected).max()
    show(f"adapter of {family} by the library: llama.cpp's logits within {difference:.1e} of the session's")
    assert np.abs(plain - expected).max() > 0.01
    assert difference < (OF_GELU if family.startswith(("gpt2", "gemma")) else TOLERANCE)


def test_smollm2(smollm2, tmp_path, llama_cpp, show):  # noqa: F811
    """With the weights that the bundle has, as f32."""
    session, base = mebp.Session(smollm2.bundle), unpack("packaged:smollm2")
    randomise_adapter(session)
    adapter, file, other, whole = (tmp_path / name for name in ("adapter", "own.gguf", "python.gguf", "model.gguf"))
    session.save_adapter(adapter)
    save_adapter_gguf(smollm2.bundle, adapter, file)
    mebp.convert_adapter(adapter, other, "gguf", base=base)
    assert file.read_bytes() == other.read_bytes()
    weights = {name: values for name, values in session.base_weights().items() if is_of_model(name)}
    shapes = {name: values.shape for name, values in weights.items()}
    ModelWriter(base, shapes, "f32").write(whole, weights.values(), "SmolLM2")
    plain, found, expected = (
        llama_cpp.logits(whole, IDS),
        llama_cpp.logits(whole, IDS, file),
        session.logits(IDS[None])[0],
    )
    difference = np.abs(found - expected).max()
    show(f"adapter of SmolLM2 by the library: llama.cpp's logits within {difference:.1e} of the session's")
    assert np.abs(plain - expected).max() > 1
    assert difference < 1e-3


@pytest.mark.parametrize(
    "options",
    [{"lora": mebp.LoRA(rank=3, alpha=7)}, {"lora": mebp.LoRA(rank=3, alpha=7, rslora=True)},
     {"lora": mebp.LoRA(rank=4, alpha=1e-3, targets=["q_proj", "lm_head"])}],
    ids=["alpha", "rslora", "head"],
)  # fmt: skip
def test_other_settings_are_python_s_too(tmp_path, options):
    written = Written(models.build("llama"), tmp_path, **options)
    assert written.by_library() == written.by_python()


@pytest.mark.parametrize("family, targets", [("qwen2", ["q_proj", "lm_head"]), ("stablelm", "all-linear")])
def test_what_llama_cpp_has_not_is_refused_as_python_does(tmp_path, family, targets):
    written = Written(models.build(family), tmp_path, lora=mebp.LoRA(targets=targets))
    with pytest.raises(Error) as by_library:
        written.by_library()
    with pytest.raises(Error) as by_python:
        written.by_python()
    assert str(by_library.value).removeprefix(f"{written.file}") == str(by_python.value).removeprefix(
        f"{written.adapter}"
    )
    assert not written.file.exists() and not written.other.exists()


@pytest.mark.parametrize("family", ["gemma3", "mistral3"])
def test_the_text_of_a_model_that_takes_more_is_python_s_too(tmp_path, family):
    model = whole_models.build(family)
    written = Written(model, tmp_path, lora=mebp.LoRA(rank=4, alpha=10))
    assert b"language_model" in (written.adapter / "adapter_model.safetensors").read_bytes()
    assert written.by_library() == written.by_python()


@pytest.mark.parametrize(
    "options",
    [{"adapter": mebp.PrivateLoRA(rank_up=4, rank_down=3)}, {"value_head": True}],
    ids=["private", "value"],
)
def test_other_adapters_are_written_as_their_folder_has_them_for_peft(tmp_path, options):
    written = Written(models.build("llama"), tmp_path, **options)
    assert written.by_library() == written.by_python()
