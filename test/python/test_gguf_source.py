# SPDX-License-Identifier: Apache-2.0
"""A GGUF file whose tokenizer transformers converts: it sees the file, and nothing that lies beside it."""

import builtins
import json
from collections import namedtuple
from pathlib import Path

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

import mebp
from mebp.gguf.source import called, unpack_gguf
from support.gguf_models import decoder
from support.network import without_network

Space = namedtuple("Space", "free")
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "ab", "\u2581ab"]
UNKNOWN, CONTROL, BYTE, NORMAL = 2, 3, 6, 1


def write(file: Path, model: str = "llama") -> Path:
    """A Llama without layers' tensors, whose tokenizer is SentencePiece's."""
    writer = gguf.GGUFWriter(file, "llama")
    for name, value in {"context_length": 32, "embedding_length": 8, "block_count": 1, "feed_forward_length": 8,
                        "attention.head_count": 2, "attention.head_count_kv": 1, "rope.dimension_count": 4,
                        "vocab_size": len(TOKENS)}.items():  # fmt: skip
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model(model)
    writer.add_token_list(TOKENS)
    writer.add_token_scores([-float(number) for number in range(len(TOKENS))])
    writer.add_token_types([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(TOKENS) - 259))
    for name, number in (("unknown", 0), ("bos", 1), ("eos", 2)):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", number)
    writer.add_tensor("token_embd.weight", np.zeros((len(TOKENS), 8), np.float32))
    writer.add_tensor("blk.0.attn_norm.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_code_beside_the_file_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, target = tmp_path / "downloaded", tmp_path / "unpacked"
    folder.mkdir()
    file = write(folder / "model.gguf")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    auto_map = {"AutoTokenizer": [None, "evil.Evil"], "AutoConfig": "evil.Evil"}
    named = {"tokenizer_config.json": {"tokenizer_class": "Evil"}, "config.json": {"model_type": "evil"}}
    for name, fields in named.items():
        (folder / name).write_text(json.dumps({**fields, "auto_map": auto_map}))
    (folder / "tokenizer.json").write_text("not a tokenizer")
    asked = []
    monkeypatch.setattr(builtins, "input", lambda *words: asked.append(words) or "y")
    tried = without_network(monkeypatch)
    unpack_gguf(file, target, with_weights=False)
    assert asked == tried == [] and not (tmp_path / "ran").exists()
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    assert tokenizer.decode(tokenizer.encode("ab").ids) == "ab"
    written = {name.name: name.read_text(errors="replace") for name in target.iterdir()}
    assert "tokenizer_config.json" in written
    assert not any("evil" in text or "mebp-gguf-" in text or str(tmp_path) in text for text in written.values())


def test_a_file_that_is_a_link(tmp_path: Path) -> None:
    """As in a hub cache."""
    (tmp_path / "blobs").mkdir()
    write(tmp_path / "blobs" / "0123")
    (tmp_path / "model.gguf").symlink_to("blobs/0123")
    unpack_gguf(tmp_path / "model.gguf", tmp_path / "unpacked", with_weights=False)
    assert (tmp_path / "unpacked" / "tokenizer.json").is_file()


def test_a_tokenizer_that_transformers_does_not_know(tmp_path: Path) -> None:
    file = write(tmp_path / "model.gguf", "of-nobody")
    with pytest.raises(mebp.Error) as caught:
        unpack_gguf(file, tmp_path / "unpacked", with_weights=False)
    assert str(caught.value) == (
        f"{file}: transformers cannot read its tokenizer, whose 'tokenizer.ggml.model' is 'of-nobody'; export the "
        "model's Hugging Face folder"
    )


def test_errors_name_the_file_and_not_where_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.gguf").write_bytes(decoder("llama").bytes())
    monkeypatch.setattr("mebp.files.shutil.disk_usage", lambda folder: Space(free=1))
    with pytest.raises(mebp.Error) as caught:
        unpack_gguf(tmp_path / "model.gguf", tmp_path / "scratch")
    assert str(caught.value) == (
        f"{tmp_path / 'model.gguf'}: model.gguf in f32 needs 0.1 MB here and 0.0 MB are free; make room or choose "
        "another folder"
    )
    for place in (tmp_path / "scratch" / "tokenizer.json", tmp_path / "scratch"):
        with pytest.raises(mebp.Error) as caught, called(tmp_path / "model.gguf", tmp_path / "scratch"):
            raise mebp.Error(f"{place}: makes no token of 'a'; download it again")
        assert str(caught.value) == f"{tmp_path / 'model.gguf'}: makes no token of 'a'; download it again"
