# SPDX-License-Identifier: Apache-2.0
"""Gemma 4's kind of vocabulary in a GGUF file, in and out: llama.cpp cuts a text as transformers does."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mebp.errors import Error
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from support.gguf_files import Array
from support.gguf_lines import MERGES, TEXTS, lines, write_tokenizer
from support.gguf_models import HIDDEN, WORDS
from support.llama_cpp import llama_cpp  # noqa: F401

YES, NO = ("bool", 1), ("bool", 0)


def unpacked(folder: Path, **keys: object) -> Tokenizer:
    (folder / "model.gguf").write_bytes(lines(**keys).bytes())
    unpack_gguf(folder / "model.gguf", folder / "unpacked", with_weights=False)
    return Tokenizer.from_file(str(folder / "unpacked" / "tokenizer.json"))


def test_texts_are_cut_as_llama_cpp_cuts_them(tmp_path, llama_cpp):  # noqa: F811
    tokenizer = unpacked(tmp_path)
    for text in TEXTS:
        expected = llama_cpp.tokenize(tmp_path / "model.gguf", text, vocabulary_only=True)
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected, text
        if "<" not in text:
            assert tokenizer.decode(expected) == text.replace("\u2581", " ")


@pytest.mark.parametrize("keys", [{}, {"add_bos_token": NO}, {"add_bos_token": YES}, {"add_eos_token": YES},
                                  {"add_bos_token": YES, "add_eos_token": NO}], ids=str)  # fmt: skip
def test_texts_begin_and_end_as_in_llama_cpp(tmp_path, keys, llama_cpp):  # noqa: F811
    tokenizer = unpacked(tmp_path, **{"add_bos_token": None, **keys})
    expected = llama_cpp.tokenize(tmp_path / "model.gguf", "a", vocabulary_only=True, around=True)
    assert tokenizer.encode("a").ids == expected


def write(folder: Path, **fields: object) -> Path:
    config = {"model_type": "llama", "vocab_size": WORDS, "hidden_size": HIDDEN, "intermediate_size": 64,
              "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64,
              "rms_norm_eps": 1e-5}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder, **fields)
    writer = ModelWriter(folder, {}, "f32")
    writer.write(folder / "written.gguf", [], "tiny")
    return folder / "written.gguf"


def test_a_tokenizer_is_written(tmp_path, llama_cpp):  # noqa: F811
    file = write(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        expected = llama_cpp.tokenize(file, text, vocabulary_only=True, around=True)
        assert tokenizer.encode(text).ids == expected, text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"merges": [*map(list, MERGES), ["the", "\n"]]}, r"llama.cpp would cut a text otherwise at ['the', '\n']"),
        ({"merges": [list(pair) for pair in MERGES if pair != ("\n\n", "\n")]},
         r"llama.cpp would cut a text otherwise at '\n\n\n'"),
    ],
)  # fmt: skip
def test_what_llama_cpp_would_cut_otherwise(tmp_path, fields, said):
    with pytest.raises(Error) as caught:
        write(tmp_path, **fields)
    assert str(caught.value).startswith(f"{tmp_path / 'tokenizer.json'}: {said}; write a folder for transformers")


def test_files_that_cannot_be_cut_so(tmp_path):
    merges = [" ".join(pair) for pair in MERGES if pair != ("\n", "\n")]
    with pytest.raises(Error) as caught:
        unpacked(tmp_path, merges=Array("string", merges))
    assert str(caught.value) == (
        rf"{tmp_path / 'model.gguf'}: llama.cpp would cut a text otherwise at '\n\n'; export the model's Hugging Face "
        "folder"
    )
