# SPDX-License-Identifier: Apache-2.0
"""A tiny vocabulary of Gemma 4's kind, as GGUF keys and as the tokenizer.json that transformers has of it."""

import json
from pathlib import Path

from support.gguf_files import Array, File
from support.gguf_models import WORDS, decoder

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
_S = "\u2581"
MERGES = [("t", "h"), (_S, "th"), ("h", "e"), ("r", "e"), ("th", "e"), (f"{_S}th", "e"), (_S, _S), ("\n", "\n"),
          ("\n\n", "\n\n"), ("\n\n", "\n"), ("the", "re"), ("na", "\u00ef"), ("n", "a")]  # fmt: skip
LETTERS = ["t", "h", "e", "r", "n", "a", _S, "\n", "\u00ef"]
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
TEXTS = ["there", " the  there", "the\n\n  re", "na\u00efve \u65e5\u672c \U0001f642", "", "   ", "\n", "\n\n\n\n\n\n\n",
         "the <|turn>the\n there<turn|>\n", "<|turn> the<eos> re", "hehere therethere\n\n\nthe\n", "a\u2581t",
         "<unused> the", "\r\n \t"]  # fmt: skip


def vocabulary(words: int = WORDS) -> tuple[list[str], list[int]]:
    """Tokens and their kinds."""
    plain = [*LETTERS, *("".join(pair) for pair in MERGES)]
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *plain, "<unused>"]
    kinds = [CONTROL, CONTROL, CONTROL, UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(plain), USER_DEFINED]
    more = range(words - len(tokens))
    return [*tokens, *(f"x{number}" for number in more)], [*kinds, *[NORMAL] * len(more)]


def lines(**keys: object) -> File:
    tokens, kinds = vocabulary()
    file = decoder("llama").without("tokenizer.ggml.pre", "llama.rope.scaling.type", "llama.rope.scaling.factor")
    found = {"model": "gemma4", "tokens": Array("string", tokens), "token_type": Array("i32", kinds),
             "merges": Array("string", [" ".join(pair) for pair in MERGES]), "add_space_prefix": ("bool", 0),
             "padding_token_id": ("u32", 0), "eos_token_id": ("u32", 1), "bos_token_id": ("u32", 2),
             "unknown_token_id": ("u32", 3)}  # fmt: skip
    for key, value in {**found, **keys}.items():
        place = f"tokenizer.ggml.{key}"
        file = file.without(place) if value is None else file.with_key(place, value)
    return file


def write_tokenizer(folder: Path, words: int = WORDS, **fields: object) -> None:
    """As transformers writes Gemma's; fields: of tokenizer.json, or of its model."""
    tokens, kinds = vocabulary(words)
    added = [{"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": kinds[number] != USER_DEFINED}
             for number, token in enumerate(tokens) if kinds[number] in (UNKNOWN, CONTROL, USER_DEFINED)]  # fmt: skip
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
             "vocab": {token: number for number, token in enumerate(tokens)},
             "merges": [list(pair) for pair in MERGES]}  # fmt: skip
    first, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    begin = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
    around = {"type": "TemplateProcessing", "single": [begin, first], "pair": [begin, first, second],
              "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}}}  # fmt: skip
    back = {"type": "Replace", "pattern": {"String": _S}, "content": " "}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": _S},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                          "invert": False},
        "post_processor": around,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": model,
    }  # fmt: skip
    for name, value in fields.items():
        (model if name in model else tokenizer)[name] = value
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>",
                "pad_token": "<pad>", "unk_token": "<unk>"}  # fmt: skip
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
