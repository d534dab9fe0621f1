# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of Gemma 4: BPE of characters, with a mark in place of each space, and bytes of what it does not have.
llama.cpp cuts a text into lines and runs of line feeds before, and transformers does not."""

import reprlib
from collections.abc import Mapping

from mebp.errors import Error
from mebp.gguf.container import Container
from mebp.gguf.pieces import BYTE, BYTES, MARKED, NOT_CUT, SPACE

MODEL = "gemma4"  # what tokenizer.ggml.model says
_UNKNOWN, _UNUSED = 2, 5
_FEED = "\n"
_LONGEST_RUN = 256
_CUT = {"type": "Split", "pattern": {"Regex": r"\n+"}, "behavior": "Isolated", "invert": False}
# Special tokens that llama.cpp writes out in an answer, for what reads calls of tools there.
SHOWN = frozenset({"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
                   '<|"|>'})  # fmt: skip


def is_in_lines(tokenizer: Mapping) -> bool:
    """Whether a tokenizer.json has these rules; its normaliser has left no space that its cut could be at."""
    model = tokenizer.get("model") or {}
    return (
        model.get("type") == "BPE"
        and model.get("byte_fallback") is True
        and not model.get("ignore_merges")
        and tokenizer.get("normalizer") == MARKED
        and tokenizer.get("pre_tokenizer") in (None, NOT_CUT, _CUT)
    )


def check(tokens: list[str], merges: list[list[str]], added: list[str], what: str, advice: str) -> None:
    """Raises mebp.Error where llama.cpp would cut a text otherwise."""
    known = {*tokens}
    if lacking := next((each for each in BYTES if each not in known), None):
        raise Error(f"{what}: its vocabulary lacks the byte {lacking}; {advice}")
    wrong = next((pair for pair in merges if len({each.strip(_FEED) == "" for each in pair}) > 1
                  or any(_FEED in each.strip(_FEED) for each in pair)), None)  # fmt: skip
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    runs = (token for token in tokens if token and not token.strip(_FEED))
    wrong = wrong or next((run for run in runs if len(run) > _LONGEST_RUN or _joined(len(run), ranks) != [run]), None)
    wrong = wrong or next((token for token in added if SPACE in token or " " in token), None)
    if wrong:
        raise Error(f"{what}: llama.cpp would cut a text otherwise at {reprlib.repr(wrong)}; {advice}")


def _joined(count: int, ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """A run of so many line feeds, by merges alone; llama.cpp takes a token for the whole where there is one."""
    parts = [_FEED] * count
    while len(parts) > 1:
        rank, place = min((ranks.get((parts[at], parts[at + 1]), len(ranks)), at) for at in range(len(parts) - 1))
        if rank == len(ranks):
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts


def kind_of(token: str, kind: int, control: int, user_defined: int) -> int:
    """llama.cpp's type of a token, which other vocabularies call `kind`."""
    if token in BYTES:
        return BYTE
    return user_defined if kind == control and token in SHOWN else kind


def rules(container: Container, tokens: list[str], kinds: list[int]) -> dict[str, object]:
    """What differs from one vocabulary to the next in tokenizer.json, but for the tokens around a text."""
    merges = [_pair(each) for each in container.texts("tokenizer.ggml.merges", needed=True)]
    normal = (_UNUSED, BYTE, 1)
    added = [token for token, kind in zip(tokens, kinds, strict=True) if kind not in normal]
    check(tokens, merges, added, f"{container.path}", "export the model's Hugging Face folder")
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == _UNKNOWN or token == "<unk>"),
                   None)  # fmt: skip
    return {
        "normalizer": MARKED,
        "pre_tokenizer": _CUT,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "byte_fallback": True,
                  "vocab": {token: number for number, token in enumerate(tokens) if kinds[number] != _UNUSED},
                  "merges": merges},
    }  # fmt: skip


def _pair(merge: str) -> list[str]:
    """A token has no space but at its beginning."""
    cut = merge.find(" ", 1)
    return [merge[:cut], merge[cut + 1 :]]


def pairs(merges: list) -> list[list[str]]:
    """Of a tokenizer.json, which has texts in older files."""
    return [_pair(each) if isinstance(each, str) else each for each in merges]
