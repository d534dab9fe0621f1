# SPDX-License-Identifier: Apache-2.0
"""Pipelines beside those of published_pipelines.json, and texts to try them with."""

import random

# Of transformers.
CLASSES = ["Bert", "Camembert", "Cohere", "GPT2", "GPTNeoX", "Gemma", "OpenAIGPT", "Qwen2", "Qwen3_5", "Roberta"]
CLASSES += ["XGLM", "XLMRoberta"]

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def _split(expression: str, behavior: str = "Isolated", invert: bool = False) -> dict:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


# Of byte-level vocabularies.
PRE_TOKENIZERS = {
    "words": [_split(r"\w+|[^\w\s]+", "Removed", invert=True), _BYTES],
    "whitespace": [{"type": "Whitespace"}, _BYTES],
}
NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")

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
