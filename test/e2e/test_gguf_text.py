# SPDX-License-Identifier: Apache-2.0
"""A GGUF file's tokenizer against llama.cpp's: where a text begins and ends, and how SentencePiece's pieces are cut."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mebp.errors import Error
from mebp.gguf.source import unpack_gguf
from mebp.gguf.vocabulary import _BEGIN
from support.gguf_files import Array, File
from support.gguf_models import WORDS, decoder
from support.llama_cpp import LlamaCpp, llama_cpp  # noqa: F401

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
_S = "\u2581"
PIECES = ["t", "h", "e", "r", _S, "th", "he", "re", f"{_S}t", f"{_S}th", "the", f"{_S}the", "ther", _S * 2, "there",
          f"{_S}there"]  # fmt: skip
MARKS = ["<|im_start|>", "<|im_end|>"]
TEXTS = ["there", " the  there", "the\n\n  re", "na\u00efve \u65e5\u672c \U0001f642", "", "   ",
         "the <|im_start|>the\n there<|im_end|>\n", "<|im_start|> the</s> re", "hehere therethere"]  # fmt: skip


def pieces(**keys: object) -> File:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *PIECES, *MARKS]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(PIECES), *[USER_DEFINED] * len(MARKS)]
    tokens += [f"x{number}" for number in range(WORDS - len(tokens))]
    kinds += [NORMAL] * (WORDS - len(kinds))
    scores = [0.0] * 259 + [-float(number * 7 % 31) for number in range(WORDS - 259)]
    file = decoder("llama").without("tokenizer.ggml.pre", "tokenizer.ggml.merges", "tokenizer.ggml.add_bos_token")
    file = file.with_key("tokenizer.ggml.model", "llama").with_key("tokenizer.ggml.tokens", Array("string", tokens))
    file = file.with_key("tokenizer.ggml.token_type", Array("i32", kinds))
    file = file.with_key("tokenizer.ggml.scores", Array("f32", scores))
    for name, number in (("unknown", 0), ("bos", 1), ("eos", 2)):
        file = file.with_key(f"tokenizer.ggml.{name}_token_id", ("u32", number))
    return with_keys(file.without("tokenizer.ggml.padding_token_id"), keys)


def letters(**keys: object) -> File:
    """Byte-level BPE."""
    return with_keys(decoder("llama").without("tokenizer.ggml.add_bos_token"), keys)


def with_keys(file: File, keys: dict[str, object]) -> File:
    for key, value in keys.items():
        place = key if key.startswith("general.") else f"tokenizer.ggml.{key}"
        file = file.without(place) if value is None else file.with_key(place, value)
    return file.without("llama.rope.scaling.type", "llama.rope.scaling.factor")


def unpacked(folder: Path, file: File) -> Tokenizer:
    (folder / "model.gguf").write_bytes(file.bytes())
    unpack_gguf(folder / "model.gguf", folder / "unpacked", with_weights=False)
    return Tokenizer.from_file(str(folder / "unpacked" / "tokenizer.json"))


YES, NO = ("bool", 1), ("bool", 0)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"add_space_prefix": YES},
        {"add_space_prefix": NO},
        {"general.name": "Phi-3 mini"},
        {"general.name": "Phi-3 mini", "add_space_prefix": NO},
    ],
    ids=str,
)
def test_pieces_are_cut_as_llama_cpp_cuts_them(tmp_path, keys, llama_cpp: LlamaCpp):  # noqa: F811
    file = pieces(**keys)
    if "general.name" in keys:  # llama.cpp wants this token in a Phi-3
        tokens = dict(file.keys)["tokenizer.ggml.tokens"]
        file = file.with_key("tokenizer.ggml.tokens", Array("string", [*tokens.values[:-1], "<|endoftext|>"]))
    tokenizer = unpacked(tmp_path, file)
    for text in TEXTS:
        expected = llama_cpp.tokenize(tmp_path / "model.gguf", text, vocabulary_only=True)
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected, text
        if not any(mark in text for mark in (*MARKS, "</s>")):
            assert tokenizer.decode(expected) == text


@pytest.mark.parametrize("build", [pieces, letters])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"add_bos_token": NO},
        {"add_bos_token": YES},
        {"add_eos_token": YES},
        {"add_bos_token": NO, "add_eos_token": YES},
        {"pre": "qwen2"},
        {"pre": "qwen35"},
        {"pre": "lfm2"},
        {"add_space_prefix": YES},
        {"pre": "qwen2", "add_bos_token": YES},
        {"bos_token_id": ("u32", 20), "add_bos_token": YES},
    ],
    ids=str,
)
def test_texts_begin_and_end_as_in_llama_cpp(tmp_path, build, keys, llama_cpp: LlamaCpp):  # noqa: F811
    tokenizer = unpacked(tmp_path, build(**keys))
    expected = llama_cpp.tokenize(tmp_path / "model.gguf", "a", vocabulary_only=True, around=True)
    assert tokenizer.encode("a").ids == expected


def test_the_usual_numbers_of_pieces_without_special_tokens(tmp_path, llama_cpp: LlamaCpp):  # noqa: F811
    file = pieces(bos_token_id=None, eos_token_id=None, unknown_token_id=None, add_eos_token=YES)
    tokenizer = unpacked(tmp_path, file)
    expected = llama_cpp.tokenize(tmp_path / "model.gguf", "the", vocabulary_only=True, around=True)
    assert tokenizer.encode("the").ids == expected and expected[0] == 1 and expected[-1] == 2
    config = json.loads((tmp_path / "unpacked" / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, 2)


OTHER_RULES = ["default", "qwen2", "gpt-2", "smollm", "deepseek-llm", "deepseek-v3", "falcon", "starcoder",
               "command-r", "stablelm2", "olmo", "glm4", "gpt-4o", "exaone", "hunyuan", "kimi-k2", "bloom",
               "jina-v2-code"]  # fmt: skip


@pytest.mark.parametrize("rule", [*_BEGIN, *OTHER_RULES])
def test_rules_that_begin_a_text(tmp_path, rule, llama_cpp: LlamaCpp):  # noqa: F811
    place = tmp_path / "model.gguf"
    place.write_bytes(letters(pre=rule).bytes())
    ids = llama_cpp.tokenize(place, "t0", vocabulary_only=True, around=True)
    assert (ids[:1] == [0]) == (rule in _BEGIN)


def test_a_generation_ends_with_each_end_that_the_file_names(tmp_path):
    unpacked(tmp_path, letters(eot_token_id=("u32", 7), eom_token_id=("u32", 8)))
    found = json.loads((tmp_path / "unpacked" / "generation_config.json").read_text())
    assert found["eos_token_id"] == [1, 7, 8]
    assert json.loads((tmp_path / "unpacked" / "config.json").read_text())["eos_token_id"] == 1


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (letters(add_bos_token=YES, bos_token_id=None),
         "'tokenizer.ggml.add_bos_token' is true, and it lacks 'tokenizer.ggml.bos_token_id'; download it again"),
        (pieces(scores=None), "lacks 'tokenizer.ggml.scores'; download it again"),
        (pieces(scores=Array("f32", [1.0])), "'tokenizer.ggml.scores' has 1 entries for 300 tokens; download it again"),
        (letters(tokens=Array("string", ["a", "b"]), token_type=None),
         "'tokenizer.ggml.tokens' has 2 entries, and tensor 'token_embd.weight' has 300 rows; download it again"),
    ],
)  # fmt: skip
def test_keys_that_do_not_belong_together(tmp_path, file, said):
    with pytest.raises(Error) as caught:
        unpacked(tmp_path, file)
    assert str(caught.value) == f"{tmp_path / 'model.gguf'}: {said}"
