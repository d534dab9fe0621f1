# SPDX-License-Identifier: Apache-2.0
"""Parts of a text have the tokens of the whole text, whatever the tokenizer: held to the package's own encoding."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from mebp.data.cuts import Cuts
from mebp.data.encoding import Encoder
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
PROSE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def trained(model: object, kind: type, vocabulary: int = 700, **parts: object) -> Backend:
    backend = Backend(model)
    for name, part in parts.items():
        setattr(backend, name, part)
    added = ["<unk>"] if kind is not trainers.WordPieceTrainer else ["[UNK]"]
    options = {"unk_token": "<unk>"} if kind is trainers.UnigramTrainer else {}
    if isinstance(parts.get("pre_tokenizer"), pre_tokenizers.ByteLevel | pre_tokenizers.Sequence):
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    trainer = kind(vocab_size=vocabulary, special_tokens=added, show_progress=False, **options)
    backend.train_from_iterator(PROSE.split("\n\n"), trainer)
    return backend


def byte_level(**options: object) -> Backend:
    return trained(models.BPE(), trainers.BpeTrainer, pre_tokenizer=pre_tokenizers.ByteLevel(**options))


def llama_3() -> Backend:
    split = pre_tokenizers.Split(Regex(LLAMA_3), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return trained(models.BPE(), trainers.BpeTrainer, pre_tokenizer=pre_tokenizers.Sequence([split, level]))


def llama_2() -> Backend:
    """As SentencePiece's BPE was first converted: one word, with a space before it, by the normalizer."""
    spaces = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    return _one_word(normalizers.Sequence(spaces))


def gemma() -> Backend:
    return _one_word(normalizers.Replace(" ", "\u2581"))


def _one_word(normalizer: object) -> Backend:
    split = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)  # while it learns alone
    backend = trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer, normalizer=normalizer, pre_tokenizer=split)
    backend.pre_tokenizer = None
    return backend


def metaspace(scheme: str) -> Backend:
    parts = {"normalizer": normalizers.NFKC(), "pre_tokenizer": pre_tokenizers.Metaspace(prepend_scheme=scheme)}
    return trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer, **parts)


def unigram(split: bool = True) -> Backend:
    strip = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    space = pre_tokenizers.Metaspace(prepend_scheme="always", split=split)
    return trained(models.Unigram(), trainers.UnigramTrainer, 300, normalizer=strip, pre_tokenizer=space)


def word_piece() -> Backend:
    parts = {"normalizer": normalizers.BertNormalizer(), "pre_tokenizer": pre_tokenizers.BertPreTokenizer()}
    backend = trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer, **parts)
    backend.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    return backend


def with_greedy_tokens() -> Backend:
    """Added tokens that take in the spaces around them, or have some."""
    backend = byte_level(add_prefix_space=False)
    backend.add_tokens(
        [AddedToken("<|user|>", rstrip=True), AddedToken("<to the end>"), AddedToken("boat", lstrip=True)]
    )
    return backend


def over_spaces() -> Backend:
    """Tokens of several words."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return trained(models.BPE(), trainers.BpeTrainer, 3000, pre_tokenizer=level)


def fixed_length() -> Backend:
    """Where a word begins depends on all that was before it."""
    backend = byte_level(add_prefix_space=False)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.FixedLength(7), level])
    return backend


def smollm2() -> Backend:
    return Tokenizer.of_model(unpack("packaged:smollm2")).backend


CUT = [smollm2, llama_3, llama_2, gemma, unigram, word_piece, with_greedy_tokens, over_spaces,
       lambda: byte_level(add_prefix_space=False), lambda: byte_level(add_prefix_space=True),
       *(lambda scheme=scheme: metaspace(scheme) for scheme in ("always", "first", "never"))]  # fmt: skip
WHOLE = [lambda: unigram(split=False), fixed_length]


def texts() -> list[str]:
    """Prose, and what is odd in all ways that a random generator finds."""
    chance = random.Random(7)
    odd = ["<|user|>", "<|user|> x", " <to the end> ", "boat", "[MASK]", "[mask]", "<s>", "\u2581", "\u00a0",
           "e\u0301", "\u200b", "\ufb01", "\u0130", "\r\n", "\n", "\n\n", "\t", "  ", " ", " ", " ", " ", "'s",
           "1,024", "'", "\u4e2d\u56fd", "\u0436\u0443\u043a", "Stra\u00dfe", "/", "!", "\U0001f642", "\x00",
           "\u0301", "A", "b", "ing", "The", "\ufeff"]  # fmt: skip
    mixed = ["".join(chance.choice(odd) for _ in range(400)) for _ in range(8)]
    words = [" ".join(chance.choice(odd) for _ in range(300)) for _ in range(4)]
    return [PROSE, *mixed, *words, "", " ", "\n", " a", "a ", "a  b", "a b"]


class Wrapped(Tokenizer):
    def __init__(self, backend: Backend) -> None:
        self._tokenizer, self.before_text, self.folder = backend, [], Path()


@pytest.mark.parametrize("make", CUT + WHOLE)
def test_parts_have_the_ids_and_the_places_of_the_whole(make: Callable[[], Backend], monkeypatch):
    monkeypatch.setattr("mebp.data.cuts.BLOCK", 200)
    monkeypatch.setattr("mebp.data.encoding.BLOCK", 200)
    tokenizer = Wrapped(make())
    cuts = Cuts.of(tokenizer.backend)
    assert (cuts.space is not None) == (make in CUT)
    encoder, given = Encoder(tokenizer), texts()
    expected = [tokenizer.encode_with_offsets(text) for text in given]
    for _ in range(2):  # the second time, most parts are known
        assert [ids.tolist() for ids in encoder.arrays(given)] == [ids for ids, _ in expected]
    for step in (1, 3, 50):
        begun = [text[: len(text) // step] for text in given]
        more = [text[len(start) :] for text, start in zip(given, begun, strict=True)]
        short, whole = encoder.begun_and_whole(begun, more)
        assert [ids.tolist() for ids in short] == [tokenizer.encode(text) for text in begun]
        assert [ids.tolist() for ids in whole] == [ids for ids, _ in expected]
    encoder.prepare(given)
    for text, (ids, places) in zip(given, expected, strict=True):
        found = encoder.encode_with_offsets(text)
        assert found[0].tolist() == ids and [tuple(place) for place in found[1].tolist()] == places
        blocks = list(encoder.long(text))
        assert [token for block in blocks for token in block.tolist()] == ids
        assert len(blocks) > 5 or text != PROSE or make in (over_spaces, *WHOLE)
