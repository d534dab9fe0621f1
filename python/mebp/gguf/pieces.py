# SPDX-License-Identifier: Apache-2.0
"""A SentencePiece vocabulary of a GGUF file as tokenizer.json, which cuts a text as llama.cpp does.

transformers' own conversion does not read the file's add_space_prefix, and gives a Gemma tokens that it does not have.
"""

from collections.abc import Iterator

from mebp.errors import Error
from mebp.gguf.container import Container

_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6  # llama.cpp's types of tokens
_SPACE = "\u2581"


def rules(container: Container, tokens: list[str], kinds: list[int]) -> dict[str, object]:
    """What differs from one vocabulary to the next in tokenizer.json, but for the tokens around a text."""
    scores = container.reals("tokenizer.ggml.scores", needed=True)
    if len(scores) != len(tokens):
        raise Error(f"{container.path}: 'tokenizer.ggml.scores' has {len(scores)} entries for {len(tokens)} tokens; "
                    "download it again")  # fmt: skip
    prefixed = container.flag("tokenizer.ggml.add_space_prefix") is not False
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == _UNKNOWN), None)
    # A normaliser is applied to each piece of text between special tokens, as llama.cpp puts its spaces.
    prepend, strip = {"type": "Prepend", "prepend": _SPACE}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*([prepend] if prefixed else []), replace]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                     *([strip] if prefixed else [])]},
        "model": {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "byte_fallback": True,
                  "vocab": {token: number for number, token in enumerate(tokens)},
                  "merges": list(_merges(tokens, scores, kinds))},
    }  # fmt: skip


def _merges(tokens: list[str], scores: list[float], kinds: list[int]) -> Iterator[list[str]]:
    """SentencePiece joins the neighbours that make the best token; each pair that can make one stands in its place."""
    usable = {token: score for token, score, kind in zip(tokens, scores, kinds, strict=True)
              if kind not in (_UNKNOWN, _CONTROL, _BYTE)}  # fmt: skip
    for token in sorted(usable, key=usable.get, reverse=True):
        for cut in range(len(token) - 1, 0, -1):
            if token[:cut] in usable and token[cut:] in usable:
                yield [token[:cut], token[cut:]]
