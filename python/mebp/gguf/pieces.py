# SPDX-License-Identifier: Apache-2.0
"""A SentencePiece vocabulary, in and out: tokenizer.json has merges in an order, and llama.cpp scores of tokens.

transformers' own conversion does not read the file's add_space_prefix, and gives a Gemma tokens that it does not have.
"""

import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from mebp.errors import Error
from mebp.gguf.container import Container

MODEL = "llama"  # what tokenizer.ggml.model says
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # llama.cpp's types of tokens
BYTES = tuple(f"<0x{number:02X}>" for number in range(256))
_LONGEST, _LONGEST_RUN = 1024, 64  # characters; in no published vocabulary are there more
_BYTE_NAMES = frozenset(BYTES)
SPACE = "\u2581"
MARKED = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
NOT_CUT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
_PREPEND = {"type": "Prepend", "prepend": SPACE}

# Before which pieces of a text transformers puts a space: each that lies between special tokens; those of them that
# have none; the first alone, if it begins the text and has none; none.
EACH, EACH_WITHOUT, FIRST, NONE = "each", "each without", "first", "none"
_SCHEMES = {"always": EACH_WITHOUT, "first": FIRST, "never": NONE}


def spaces_of(tokenizer: Mapping) -> str | None:
    """Where a tokenizer.json of pieces puts a space; None: it is of no such kind."""
    model = tokenizer.get("model") or {}
    if model.get("type") != "BPE" or model.get("byte_fallback") is not True or model.get("ignore_merges"):
        return None
    normalizer, cut = tokenizer.get("normalizer"), tokenizer.get("pre_tokenizer")
    steps = normalizer.get("normalizers") if (normalizer or {}).get("type") == "Sequence" else [normalizer]
    if cut in (None, NOT_CUT) and steps in ([_PREPEND, MARKED], [MARKED]):
        return EACH if _PREPEND in steps else NONE
    cut = cut or {}
    if normalizer is None and cut.get("type") == "Metaspace" and cut.get("split") is False:
        return _SCHEMES.get(cut.get("prepend_scheme")) if cut.get("replacement") == SPACE else None
    return None


def scores(
    vocabulary: Mapping[str, int], merges: Iterable[Sequence[str]], kinds: Sequence[int], what: str, advice: str
) -> list[float]:
    """llama.cpp's of each token, of which it joins the best first: what is merged earlier scores more.

    kinds: of the tokens, by their numbers. Raises mebp.Error, about `what`, where no scores give these merges.
    """
    known = set(vocabulary)
    if lacking := next((each for each in BYTES if each not in known), None):
        raise Error(f"{what}: its vocabulary lacks the byte {lacking}; {advice}")
    pairs = [(first, second) for first, second in merges]
    ranks = _ranks(pairs)
    _check_ties(vocabulary, pairs, ranks, kinds, what, advice)
    if long := next((token for token in vocabulary if len(token) > _LONGEST), None):
        _refuse(long, what, advice)
    usable = {token for token, number in vocabulary.items() if kinds[number] in (NORMAL, USER_DEFINED)}
    merged: dict[str, set[str]] = {}
    for first, second in pairs:
        merged.setdefault(first + second, set()).add(first)
    for token, number in vocabulary.items():
        every = {token[:cut] for cut in range(1, len(token)) if token[:cut] in usable and token[cut:] in usable}
        # llama.cpp joins whatever makes a token, and characters that are none. It looks for added tokens before, while
        # a space is still one.
        is_joined = kinds[number] == NORMAL or SPACE in token
        if is_joined and (not every <= merged.get(token, set()) or not known.issuperset(token)):
            _refuse(token, what, advice)
    found = [-float(len(pairs))] * len(kinds)
    for token, number in vocabulary.items():
        found[number] = -float(ranks.get(token, len(pairs)))
    return found


def _ranks(pairs: list[tuple[str, str]]) -> dict[str, int]:
    """Of each token that merges make; those whose merges lie among each other's have one rank."""
    last = {first + second: place for place, (first, second) in enumerate(pairs)}
    ranks: dict[str, int] = {}
    number, end = -1, -1
    for place, (first, second) in enumerate(pairs):
        number += place > end
        end = max(end, last[first + second])
        ranks.setdefault(first + second, number)
    return ranks


def _check_ties(
    vocabulary: Mapping[str, int],
    pairs: list[tuple[str, str]],
    ranks: Mapping[str, int],
    kinds: Sequence[int],
    what: str,
    advice: str,
) -> None:
    """Of tokens with one rank, llama.cpp makes the leftmost first. SentencePiece has runs of one character so, as of
    spaces; here each is tried."""
    count = Counter(ranks.values())
    tied = [token for token, rank in ranks.items() if count[rank] > 1]
    longest: dict[str, int] = {}
    for token in tied:
        is_run = not token.strip(token[0])
        if len(token) > _LONGEST_RUN if is_run else kinds[vocabulary[token]] == NORMAL:
            _refuse(token, what, advice)
        longest[token[0]] = max(longest.get(token[0], 0), len(token))
    places = {pair: place for place, pair in enumerate(pairs)}
    for character, most in longest.items():
        for length in range(2, 2 * most + 2):
            by_merges = _joined(character * length, lambda first, second: places.get((first, second)))
            if by_merges != _joined(character * length, lambda first, second: ranks.get(first + second)):
                _refuse(character * length, what, advice)


def _joined(text: str, rank: Callable[[str, str], int | None]) -> list[str]:
    """The parts that are left, where the lowest rank is joined first, and of equal ones the leftmost."""
    parts = list(text)
    while True:
        ranks = [rank(first, second) for first, second in pairwise(parts)]
        found = [(value, place) for place, value in enumerate(ranks) if value is not None]
        if not found:
            return parts
        _, place = min(found)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


def kind_of(token: str, kind: int, unknown: object) -> int:
    """llama.cpp's type of a token, which other vocabularies call `kind`."""
    return UNKNOWN if token == unknown else BYTE if token in _BYTE_NAMES else kind


def padding(number: int) -> str:
    """In place of a token that a model has a row for, and its tokenizer nothing."""
    return f"[PAD{number}]"


def _refuse(token: str, what: str, advice: str) -> None:
    raise Error(f"{what}: its merges are not those of SentencePiece's pieces, so that llama.cpp would cut a text "
                f"otherwise at {reprlib.repr(token)}; {advice}")  # fmt: skip


def rules(container: Container, tokens: list[str], kinds: list[int]) -> dict[str, object]:
    """What differs from one vocabulary to the next in tokenizer.json, but for the tokens around a text."""
    stored = container.reals("tokenizer.ggml.scores", needed=True)
    if len(stored) != len(tokens):
        raise Error(f"{container.path}: 'tokenizer.ggml.scores' has {len(stored)} entries for {len(tokens)} tokens; "
                    "download it again")  # fmt: skip
    prefixed = container.flag("tokenizer.ggml.add_space_prefix") is not False
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == UNKNOWN), None)
    # A normaliser is applied to each piece of text between special tokens, as llama.cpp puts its spaces.
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*([_PREPEND] if prefixed else []), MARKED]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                     *([strip] if prefixed else [])]},
        "model": {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "byte_fallback": True,
                  "vocab": {token: number for number, token in enumerate(tokens) if token != padding(number)},
                  "merges": _merges(tokens, stored, kinds)},
    }  # fmt: skip


def _merges(tokens: list[str], stored: list[float], kinds: list[int]) -> list[list[str]]:
    """SentencePiece joins the neighbours that make the best token; each pair that can make one stands in its place, and
    of tokens with one score, as runs of spaces are, the longest pair first."""
    usable = {token: score for token, score, kind in zip(tokens, stored, kinds, strict=True)
              if kind not in (UNKNOWN, CONTROL, BYTE)}  # fmt: skip
    pairs = [
        (-score, -cut, cut - len(token), token)
        for token, score in usable.items()
        for cut in range(1, len(token))
        if token[:cut] in usable and token[cut:] in usable
    ]
    return [[token[:-first], token[-first:]] for _, first, _, token in sorted(pairs)]
