# SPDX-License-Identifier: Apache-2.0
"""Tiny models and adapters as GGUF files: how they are made, and that an adapter goes there and back."""

import shutil
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

import mebp
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from mebp.verification.inputs import randomise_adapter
from support import models
from support.llama_cpp import LlamaCpp
from support.pipeline import make_bundle

IDS = np.random.default_rng(0).integers(3, 330, 40)


def tensors_of(model: PreTrainedModel) -> dict[str, np.ndarray]:
    """As a bundle has them: experts in one tensor, and a tied head not at all."""
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


def as_published(model: PreTrainedModel) -> PreTrainedModel:
    """With numbers in bf16, and none of a vector so small that 1 swallows its bits: what is added to norms can be taken
    off again."""
    with torch.no_grad():
        for tensor in model.parameters():
            values = tensor.bfloat16().float()
            tensor.copy_((values * 2**16).round() / 2**16 if values.dim() == 1 else values)
    return model


def check_there_and_back(model: PreTrainedModel, folder: Path, llama_cpp: LlamaCpp, tolerance: float) -> Path:
    """llama.cpp's logits of the file are the model's; each tensor comes back bit for bit. Returns the file."""
    file, expected = write_gguf(model, folder), logits_of(model, IDS)
    assert np.abs(llama_cpp.logits(file, IDS) - expected).max() < tolerance
    unpack_gguf(file, folder / "unpacked")
    found, own = load_file(folder / "unpacked" / "model.safetensors"), tensors_of(model)
    assert found.keys() == own.keys()
    assert [name for name in own if not np.array_equal(found[name], own[name])] == []
    again, report = AutoModelForCausalLM.from_pretrained(
        folder / "unpacked",
        attn_implementation=model.config._attn_implementation,
        output_loading_info=True,
        trust_remote_code=False,
        use_safetensors=True,
    )
    assert not any(report.values()), report
    assert np.abs(logits_of(again.eval(), IDS) - expected).max() < 1e-4  # experts are computed in another order
    return file


def logits_of(model: PreTrainedModel, ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids)[None]).logits[0].numpy()


def check_merged(model: PreTrainedModel, folder: Path, llama_cpp: LlamaCpp, tolerance: float, largest: float) -> float:
    """What llama.cpp computes from a model with a random adapter merged into it is what the session computes, and a
    bundle of the file again does, too, and writes the text that llama.cpp expects. Logits of two engines differ by less
    than `tolerance`, which is returned, and the adapter changes them by more than `largest`. The bundle is
    folder/model.mebp, the adapter folder/adapter."""
    bundle = make_bundle(model, folder, seq_len=48, weights="f32")
    session = mebp.Session(bundle)
    plain = session.logits(IDS[None])[0]
    randomise_adapter(session)
    session.save_adapter(folder / "adapter")
    expected, file = session.logits(IDS[None])[0], folder / "merged.gguf"
    result = mebp.merge(bundle, folder / "adapter", file)
    assert set(result.changes) < set(result.roundings) and not any(result.roundings.values())
    difference = np.abs(llama_cpp.logits(file, IDS) - expected).max()
    assert difference < tolerance
    assert np.abs(plain - expected).max() > largest
    mebp.export(file, folder / "again" / "model.onnx", seq_len=48)
    mebp.compile(folder / "again" / "model.onnx", folder / "again.mebp", seq_len=48, weights="f32", precision="f32",
                 generate_len=80)  # fmt: skip
    again = mebp.Session(folder / "again.mebp")
    assert np.abs(again.logits(IDS[None])[0] - expected).max() < 1e-4
    text = again.generate(IDS[None, :20], 32, eos_token_id=[])[0]
    assert np.array_equal(llama_cpp.logits(file, text).argmax(axis=1)[19:-1], text[20:])
    return difference


class Adapted:
    """A model in a folder and a random adapter of PEFT; `chosen`: as LoraConfig has it."""

    def __init__(self, folder: Path, model: PreTrainedModel, **chosen: object) -> None:
        self.base, self.adapter = folder / "source", folder / "adapter"
        self.file = write_gguf(model, folder)
        self.plain = logits_of(model, IDS)
        lora = LoraConfig(r=4, lora_alpha=10, task_type="CAUSAL_LM", **chosen)
        adapted, generator = get_peft_model(model, lora).eval(), torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_" in name:
                    parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
        adapted.save_pretrained(self.adapter, save_embedding_layers=False)
        self.logits = logits_of(adapted, IDS)

    def check_back(self, written: Path, back: Path) -> None:
        """From the GGUF adapter `written`. The base model's file says as much as its folder."""
        for base in (self.base, self.file):
            mebp.convert_adapter(written, back, "peft", base=base)
            before, after = (load_file(each / "adapter_model.safetensors") for each in (self.adapter, back))
            assert before.keys() == after.keys()
            assert [name for name in before if not np.array_equal(before[name], after[name])] == []
            shutil.rmtree(back)
