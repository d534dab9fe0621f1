# SPDX-License-Identifier: Apache-2.0
"""Pipelines that published tokenizers have, beside those that transformers builds, and texts to try them with."""

import random

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def _split(expression: str, behavior: str = "Isolated", invert: bool = False) -> dict:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


_ENDS = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LOWER, _UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
# Of byte-level vocabularies.
PRE_TOKENIZERS = {
    "llama3": [_split(_SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+" + _ENDS), _BYTES],
    "o200k": [
        _split(
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SHORT}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SHORT}?"
            + _ENDS
        ),
        _BYTES,
    ],
    "bloom": [_split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), _BYTES],
    "falcon": [
        {"type": "Punctuation", "behavior": "Contiguous"},
        {**_BYTES, "use_regex": True},
        {"type": "Digits", "individual_digits": False},
        _split("[0-9][0-9][0-9]"),
    ],
    "deepseek": [
        _split(r"[\r\n]"),
        _split("\\s?[A-Za-z\u00b5\u00c0-\u00d6]+"),
        _split(r"\s+$"),
        _split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
        {"type": "Digits", "individual_digits": True},
        _BYTES,
    ],
    "words": [_split(r"\w+|[^\w\s]+", "Removed", invert=True), _BYTES],
    "whitespace": [{"type": "Whitespace"}, _BYTES],
}
NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")
LLAMA2 = {
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        ],
    },
    "pre_tokenizer": None,
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}

_BLOCKS = [
    *[(0x20, 0x7E)] * 6,
    *[(0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF), (0x1100, 0x11FF)],
    *[(0x1E00, 0x206F), (0x2000, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF)],
    *[(0xFE00, 0xFFEF), (0x10000, 0x107FF), (0x1D400, 0x1D7FF), (0x1F000, 0x1FAFF), (0x20000, 0x2EE5D)],
]
_PARTS = [
    *[
        "the ",
        "  ",
        "\n\n",
        "\t",
        "\r\n",
        "'s",
        "'LL",
        "don't",
        " 123456",
        "3.14",
        "=!" * 20,
        "<0x41>",
        "##s",
        "\u2581",
    ],
    *["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "<s>", "</s>", "<|endoftext|>", "[MASK] "],
    *["<mask>", " <pad> ", "\u00df", "\u0130", "\u0149", "\u017f", "\u3000", "\u180e", "\x85", "\u2028", "\ufb01"],
    *["e\u0301", "\u0120", "a" * 70, " " * 40, "<|im_start|>user\n"],
]


def texts(count: int) -> list[str]:
    """Of all scripts, with what tokenizers treat otherwise."""
    drawn = random.Random(3)

    def one() -> str:
        text = ""
        for _ in range(drawn.randrange(25)):
            first, last = drawn.choice(_BLOCKS)
            some = "".join(chr(drawn.randint(first, last)) for _ in range(drawn.randrange(1, 6)))
            text += drawn.choice([drawn.choice(_PARTS), some])
        return text

    return [one() for _ in range(count)]
