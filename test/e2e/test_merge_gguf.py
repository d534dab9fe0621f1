# SPDX-License-Identifier: Apache-2.0
"""`mebp merge -o NAME.gguf`: llama.cpp computes with the file what the session computes, and cuts text alike."""

import errno
import json
import os
import re
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer

import mebp
from mebp.cli import main
from mebp.gguf.byte_rules import PRE_TOKENIZERS
from mebp.gguf.container import read_container
from mebp.gguf.vocabulary import vocabulary
from mebp.merging import MergeResult
from mebp.merging.served import opened
from mebp.recompiling import measure_gguf
from mebp.tensor_file import relative_norm
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import refusal_in_process
from support.llama_cpp import llama_cpp  # noqa: F401
from support.pipeline import make_bundle

TEXT = "On 12/03/1999, it's   1024 °C (naïve)…\n\n\tdef f(x):\n        return x+1  # 日本語 <|im_start|>user\n"


def adapted_bundle(folder: Path, family: str, **fields: object) -> Path:
    """A bundle without a tokenizer, and a random adapter beside it."""
    bundle = make_bundle(models.build(family, **fields), folder, seq_len=32)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(folder / "adapter")
    return bundle


def session_of(bundle: Path) -> mebp.Session:
    session = mebp.Session(bundle)
    session.load_adapter(bundle.parent / "adapter")
    return session


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    return adapted_bundle(tmp_path_factory.mktemp("llama"), "llama", intermediate_size=224)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "phi3", "gpt2_tanh"])
def test_llama_cpp_computes_the_same(tmp_path, family, llama_cpp, capsys):  # noqa: F811
    bundle, file = adapted_bundle(tmp_path, family), tmp_path / "new" / "merged.gguf"
    arguments = ["merge", str(bundle), "--adapter", str(tmp_path / "adapter"), "-o", str(file)]
    capsys.readouterr()
    assert main(arguments) == 0
    size = sum(tensor.length for tensor in read_container(file).tensors) / 1e6
    *_, said = capsys.readouterr().out.splitlines()
    assert said.endswith(" MB, a file for llama.cpp") and said.startswith(f"{file}: {size:.1f}"[:-1])
    ids = np.arange(1, 28, dtype=np.int64)
    expected = session_of(bundle).logits(ids[None])[0]
    difference = np.abs(llama_cpp.logits(file, ids) - expected).max()
    # ggml looks GPT-2's GELU up in a table of halves.
    assert difference < (5e-3 if family == "gpt2_tanh" else 1e-4)
    assert np.abs(llama_cpp.logits(file, ids) - mebp.Session(bundle).logits(ids[None])[0]).max() > 0.1
    assert [each.name for each in file.parent.iterdir()] == ["merged.gguf"]


# Of a tensor's norm.
WORST = {
    "f16": 2**-11,
    "bf16": 2**-8,
    "q8_0": 2**-6,
    "q5_1": 0.05,
    "q5_0": 0.08,
    "q4_1": 0.1,
    "q4_0": 0.15,
}


@pytest.mark.parametrize(("dtype", "worst"), WORST.items())
def test_types(llama, tmp_path, dtype, worst):
    exact = mebp.merge(llama, llama.parent / "adapter", tmp_path / "exact.gguf")
    result = mebp.merge(llama, llama.parent / "adapter", tmp_path / "file.gguf", dtype)
    assert exact.roundings.keys() == result.roundings.keys() and not any(exact.roundings.values())
    found, reference = read_container(tmp_path / "file.gguf"), read_container(tmp_path / "exact.gguf")
    for tensor, whole in zip(found.tensors, reference.tensors, strict=True):
        usual = "Q8_0" if tensor.name == "output.weight" and "q" in dtype else dtype.upper()
        assert tensor.name == whole.name and tensor.kind == ("F32" if len(tensor.shape) == 1 else usual)
        values = reference.values(whole)
        assert relative_norm(found.values(tensor) - values, values) < worst, tensor.name
    assert worst / 8 < max(result.roundings.values()) < worst


def test_rows_that_blocks_do_not_divide_are_f16(tmp_path):
    bundle = adapted_bundle(tmp_path, "llama")  # 200 columns
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "file.gguf", "q8_0")
    kinds = {tensor.name: tensor.kind for tensor in read_container(tmp_path / "file.gguf").tensors}
    assert kinds["blk.0.ffn_down.weight"] == "F16" and kinds["blk.0.ffn_up.weight"] == "Q8_0"


def test_smollm2(smollm2, tmp_path, llama_cpp, show):  # noqa: F811
    session = mebp.Session(smollm2.bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    file = tmp_path / "merged.gguf"
    mebp.merge(smollm2.bundle, tmp_path / "adapter", file)
    ids = np.array(smollm2.tokenizer.encode("The keeper of the lighthouse wrote in his log that the"))
    expected = session.logits(ids[None])[0]
    difference = np.abs(llama_cpp.logits(file, ids) - expected).max()
    show(f"SmolLM2-135M merged, f32 GGUF: logits of llama.cpp within {difference:.1e} of the session's")
    assert difference < 1e-3
    tokenizer = Tokenizer.from_file(str(smollm2.bundle / "tokenizer" / "tokenizer.json"))
    assert llama_cpp.tokenize(file, TEXT) == tokenizer.encode(TEXT, add_special_tokens=False).ids
    metadata = read_container(file).metadata
    assert metadata["tokenizer.ggml.eos_token_id"] == 2
    assert metadata["tokenizer.chat_template"] == (smollm2.bundle / "tokenizer" / "chat_template.jinja").read_text()


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_each_way_to_cut_text_is_llama_cpp_s(smollm2, llama, tmp_path, name, llama_cpp):  # noqa: F811
    folder = tmp_path / "model.mebp"
    shutil.copytree(llama, folder)
    tokenizer = json.loads((smollm2.bundle / "tokenizer" / "tokenizer.json").read_text())
    rule = PRE_TOKENIZERS[name]
    tokenizer["pre_tokenizer"] = rule.pre_tokenizer
    tokenizer["model"]["ignore_merges"] = rule.ignores_merges
    (folder / "tokenizer" / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "tokenizer" / "config.json").read_text())
    written = vocabulary(folder / "tokenizer", 49152)
    assert written["pre"] == name
    # The vocabulary is SmolLM2's, the model a tiny one: only the tokens are asked for.
    config["vocab_size"] = 49152
    (folder / "tokenizer" / "config.json").write_text(json.dumps(config))
    mebp.merge(folder, llama.parent / "adapter", tmp_path / "file.gguf")
    # With accents, and vowels that are characters of their own.
    text = TEXT.replace("<|im_start|>", "") + " cafe\u0301 नमस्ते, \u0301x" * (not rule.differs)
    assert _tokens(llama_cpp, tmp_path / "file.gguf", text) == (
        Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    )


def _tokens(llama_cpp, file: Path, text: str) -> list[int]:  # noqa: F811
    return llama_cpp.tokenize(file, text, vocabulary_only=True)


def test_what_fewer_bits_lose_is_measured(bundle, tmp_path, capsys):
    data = tmp_path / "data.txt"
    data.write_text("Half an hour before sunset, the lamp is lit.\n" * 8)
    mebp.train(bundle, data, steps=40, lr=1e-2, adapter_out=tmp_path / "adapter", progress=False)
    given = ["merge", str(bundle), "--adapter", str(tmp_path / "adapter"), "--data", str(data)]
    file = tmp_path / "out" / "merged.gguf"
    capsys.readouterr()
    assert main([*given, "-o", str(file), "--dtype", "q4_0"]) == 0
    said = capsys.readouterr().out.splitlines()
    with opened(bundle, tmp_path / "adapter", data) as served:
        found = measure_gguf(served, file)
    losses = {line.rpartition("  ")[0].strip(): line.split()[-1] for line in said}
    assert losses["merged onto stored, q4_0"] == f"{found.written:.4f}"
    assert any(line.split() == ["stored", "weights,", "int4", f"{found.base:.4f}", f"{found.trained:.4f}"]
               for line in said)  # fmt: skip
    assert found.trained < found.merged["f32"]
    assert any(line.startswith("as q4_0 it keeps ") for line in said)
    assert sorted(each.name for each in file.parent.iterdir()) == ["Modelfile", "merged.gguf"]


class TestModelfile:
    @pytest.fixture(autouse=True)
    def _given(self, bundle, tmp_path):
        self.bundle, self.adapter, self.out = bundle, tmp_path / "adapter", tmp_path / "out"
        session = mebp.Session(bundle)
        randomise_adapter(session)
        session.save_adapter(self.adapter)

    def merge(self, name: str) -> MergeResult:
        return mebp.merge(self.bundle, self.adapter, self.out / name)

    def test_is_beside_the_file(self, capsys):
        given = ["merge", self.bundle, "--adapter", self.adapter, "-o", self.out / "a.gguf", "--no-measure"]
        assert main([*map(str, given)]) == 0
        place = self.out / "Modelfile"
        assert place.read_text().splitlines()[1:] == [
            "FROM ./a.gguf", 'PARAMETER stop "<|endoftext|>"', 'PARAMETER stop "<|im_end|>"'
        ]  # fmt: skip
        assert capsys.readouterr().out.splitlines()[-1] == (
            f"{place}: for Ollama 0.34.1 or later, as in ollama create a -f {place}"
        )

    def test_two_files_in_one_folder(self):
        self.merge("a.gguf")
        before = (self.out / "Modelfile").read_text()
        assert self.merge("b.gguf").modelfile.path == self.out / "Modelfile-b"
        assert (self.out / "Modelfile").read_text() == before
        assert "FROM ./b.gguf\n" in (self.out / "Modelfile-b").read_text()

    def test_one_that_is_taken(self):
        self.out.mkdir()
        for name in ("Modelfile", "Modelfile-a"):
            (self.out / name).write_text("precious")
        with pytest.raises(mebp.Error, match="Modelfile-a: exists already; move it, or name another GGUF file"):
            self.merge("a.gguf")
        assert {each.name: each.read_text() for each in self.out.iterdir()} == dict.fromkeys(
            ("Modelfile", "Modelfile-a"), "precious"
        )

    @pytest.mark.parametrize("full", ["Modelfile", "GGUF"])
    def test_a_disk_that_fills_up_leaves_nothing(self, full, monkeypatch):
        def fails(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        fill = {"Modelfile": (Path, "write_text"), "GGUF": (GGUFWriter, "write_tensor_data")}
        monkeypatch.setattr(*fill[full], fails)
        with pytest.raises(mebp.Error, match="cannot be written .No space left on device."):
            self.merge("a.gguf")
        assert not self.out.exists()

    def test_no_room_for_what_is_to_be_written(self, monkeypatch):
        monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1000))
        with pytest.raises(mebp.Error, match="the merged model needs .* MB here and 0.0 MB are free"):
            self.merge("a.gguf")
        assert not self.out.exists()


class TestRefusals:
    @pytest.fixture(autouse=True)
    def _given(self, llama, tmp_path, capsys):
        self.folder, self.capsys, self.bundle = tmp_path, capsys, tmp_path / "model.mebp"
        self.adapter = llama.parent / "adapter"
        shutil.copytree(llama, self.bundle)

    def line(self, *options: object, output: str = "out.gguf") -> str:
        before = sorted(self.folder.rglob("*"))
        found = refusal_in_process(self.capsys, "merge", self.bundle, "--adapter", self.adapter, "-o",
                                   self.folder / output, "--no-measure", *options)  # fmt: skip
        assert sorted(self.folder.rglob("*")) == before
        return found.removeprefix("mebp: ").rstrip("\n").replace(f"{self.folder}/", "")

    def config(self, **fields: object) -> None:
        file = self.bundle / "tokenizer" / "config.json"
        found = {**json.loads(file.read_text()), **fields}
        file.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))

    def test_what_is_there(self):
        (self.folder / "out.gguf").write_text("precious")
        assert self.line() == "out.gguf: exists already; name a new file"
        assert (self.folder / "out.gguf").read_text() == "precious"

    def test_a_type_of_the_other_form(self):
        for dtype in ("q8_0", "q4_k_m"):
            assert self.line("--dtype", dtype, output="out") == f"dtype '{dtype}' is not one of f32, bf16, f16"

    def test_a_type_that_is_not_written(self):
        assert self.line("--dtype", "q3_k_m") == (
            "--dtype is 'q3_k_m'; choose f32, bf16, f16, q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, q4_1 "
            "or q4_0; see mebp merge --help"
        )

    @pytest.mark.parametrize("dtype", ["q4_k_m", "q4_0"])
    def test_a_full_disk(self, dtype):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
        try:
            line = self.line("--dtype", dtype, output="new/out.gguf")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert line == "new/out.gguf: cannot be written (File too large); nothing was, choose another place"

    def test_a_disk_without_room(self, monkeypatch):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
        line = self.line("--dtype", "q4_k_m", output="new/out.gguf")
        assert re.fullmatch(r"new: the merged model needs 0\.\d MB here and 0\.0 MB are free; make room or choose "
                            "another folder", line)  # fmt: skip

    def test_a_model_that_llama_cpp_computes_otherwise(self):
        place = "model.mebp/tokenizer/config.json"
        self.config(model_type="mamba")
        assert self.line() == (
            f"{place}: model type 'mamba' cannot be written as GGUF here; there is llama, mistral, qwen2, qwen3, "
            "gemma, gemma2, gemma3_text, gemma4_text, phi3, gpt2, qwen3_5_text, qwen3_5_moe_text, qwen3_next, lfm2, "
            "lfm2_moe, mixtral, qwen2_moe, qwen3_moe, smollm3, granite, olmo2"
        )
        self.config(model_type="llama", hidden_act="relu")
        instead = "write a folder for transformers instead (-o DIR)"
        assert self.line() == (f"{place}: has the activation 'relu', and llama.cpp computes silu in 'llama'; {instead}")
        self.config(hidden_act="silu", rope_parameters={"rope_type": "dynamic", "factor": 4.0})
        assert self.line() == (
            f"{place}: has positions of type 'dynamic', which cannot be written as GGUF here; {instead}"
        )
        self.config(rope_parameters={"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0})
        assert self.line() == (f"{place}: has beta_fast 16.0 in its positions, and llama.cpp computes 32.0; {instead}")
        self.config(rope_parameters={"rope_type": "default"}, sliding_window=16)
        assert self.line() == f"{place}: has a sliding window, which llama.cpp ignores in 'llama'; {instead}"
        self.config(sliding_window=None, rms_norm_eps=None)
        assert self.line() == f"{place}: lacks the number 'rms_norm_eps'; export and compile the model again"

    def test_a_tokenizer_that_llama_cpp_would_be_told_wrongly_about(self):
        file = self.bundle / "tokenizer" / "tokenizer.json"
        file.write_text(json.dumps({"model": {"type": "Unigram"}, "pre_tokenizer": {"type": "Whitespace"}}))
        advice = "write a folder for transformers (-o DIR), and convert that with llama.cpp's convert_hf_to_gguf.py"
        assert self.line() == (
            "model.mebp/tokenizer/tokenizer.json: is of a kind that cannot be written as GGUF here; these "
            "can: SentencePiece's BPE, and byte-level BPE that cuts text by llama.cpp's gpt-2, smollm, qwen2, "
            "llama-bpe, dbrx, qwen35, tekken, gpt-4o, deepseek-llm, deepseek-coder, deepseek-v3 or "
            f"seed-coder; {advice}"
        )
        file.unlink()
        (self.bundle / "tokenizer" / "tokenizer.model").touch()
        assert self.line() == (f"model.mebp/tokenizer: has no tokenizer.json, which a GGUF file needs; {advice}")
