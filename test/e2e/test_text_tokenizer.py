# SPDX-License-Identifier: Apache-2.0
"""Ids and texts of libmebp_text are those of `tokenizers`, for pipelines of every kind that trains here; what it cannot
read it refuses by name."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import transformers
from tokenizers import AddedToken, Tokenizer

from mebp.errors import Error
from mebp.exporter.packaged import unpack
from support.text_tokenizer import TextTokenizer
from support.tokenizer_forms import CLASSES, NORMALIZERS, PRE_TOKENIZERS, texts
from support.tokenizer_reference import CHARACTERS, compare, compare_every_character, corpus, lines


@pytest.fixture(scope="module")
def trained() -> Callable[[str], dict]:
    """tokenizer.json of a class of transformers, trained to 4,000 tokens."""
    read, made = lines(), {}

    def of(name: str) -> dict:
        if name not in made:
            untrained = getattr(transformers, f"{name}Tokenizer")()
            made[name] = untrained.train_new_from_iterator(read, 4000).backend_tokenizer.to_str()
        return json.loads(made[name])

    return of


def _forms() -> list[str]:
    return [*CLASSES, *PRE_TOKENIZERS, *NORMALIZERS]


def _written(form: str, trained: Callable[[str], dict]) -> str:
    if form in CLASSES:
        return json.dumps(trained(form))
    if form in PRE_TOKENIZERS:
        changed = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[form]}}
    else:
        changed = {"normalizer": {"type": form}}
    return json.dumps({**trained("GPT2"), **changed})


@pytest.mark.parametrize("form", _forms())
def test_ids_and_texts_are_those_of_tokenizers(form: str, trained: Callable[[str], dict]) -> None:
    compare(_written(form, trained), texts(400))


def test_smollm2_on_many_texts_and_a_megabyte() -> None:
    written = (unpack("packaged:smollm2") / "tokenizer.json").read_text()
    compare(written, [*texts(5000), corpus()])


@pytest.mark.parametrize("form", ["GPT2", "Bert", "Qwen2"])
def test_every_character(form: str, trained: Callable[[str], dict]) -> None:
    compare_every_character(_written(form, trained))


@pytest.mark.parametrize("flag", ["single_word", "lstrip", "rstrip", "normalized", "special"])
def test_added_tokens_are_found_as_they_are_there(flag: str, trained: Callable[[str], dict]) -> None:
    """With one flag more than none, and next to words, white space and one another."""
    reference = Tokenizer.from_str(json.dumps(trained("GPT2")))
    for content in ("<|a|>", "lamp", " b"):
        reference.add_tokens([AddedToken(content, **({"normalized": False} | {flag: True}))])
    parts = ["<|a|>", "lamp", "lamps", " b", "x", " ", "\n", "<|a|> ", " lamp ", "b", "<|A|>", "_lamp", "é"]
    luck = Random(0)
    given = ["".join(luck.choice(parts) for _ in range(luck.randrange(1, 9))) for _ in range(500)]
    compare(reference.to_str(), given)


def test_single_words_end_at_every_character(trained: Callable[[str], dict]) -> None:
    """What a word is, for such a token and for the pre-tokenizer of white space."""
    reference = Tokenizer.from_str(json.dumps(trained("GPT2")))
    reference.add_tokens([AddedToken("<T>", single_word=True, normalized=False)])
    ours = TextTokenizer(reference.to_str().encode())
    words = json.dumps(trained("Bert") | {"normalizer": None, "pre_tokenizer": {"type": "Whitespace"}})
    of_words, our_words = Tokenizer.from_str(words), TextTokenizer(words.encode())
    for begin in range(0, len(CHARACTERS), 64):
        text = " ".join(f"{character}<T> <T>{character} a{character}" for character in CHARACTERS[begin : begin + 64])
        assert ours.encode(text) == reference.encode(text, add_special_tokens=False).ids, hex(begin)
        assert our_words.encode(text) == of_words.encode(text, add_special_tokens=False).ids, hex(begin)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("form", "content"), [("Bert", "ÀB"), ("Gemma", "x y"), ("GPT2", "ÀB")])
def test_normalized_tokens_are_shown_as_they_are_sought(
    form: str, content: str, special: bool, trained: Callable[[str], dict]
) -> None:
    reference = Tokenizer.from_str(json.dumps(trained(form)))
    added = AddedToken(content, normalized=True, special=special)
    (reference.add_special_tokens if special else reference.add_tokens)([added])
    compare(reference.to_str(), [content, f"a {content} b", content * 2])


def test_tokens_that_tokenizer_config_adds(tmp_path: Path, trained: Callable[[str], dict]) -> None:
    """As transformers adds them to those of tokenizer.json, which has none of them."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(trained("GPT2")))
    next_id = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab_size()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|ended|>",
                "added_tokens_decoder": {str(next_id): {"content": "<|new|>", **flags}}}  # fmt: skip
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path).backend_tokenizer
    ours = TextTokenizer(tmp_path)
    for text in ("a<|new|>b", "<|ended|>", "<|new|><|ended|> x"):
        assert ours.encode(text) == reference.encode(text, add_special_tokens=False).ids, text


def test_sentencepieces_table_of_replacements(tmp_path: Path, trained: Callable[[str], dict]) -> None:
    """The one of NMT's NFKC, which published Unigram tokenizers have."""
    sentencepiece = pytest.importorskip("sentencepiece")
    from sentencepiece import sentencepiece_model_pb2

    (tmp_path / "text.txt").write_text(corpus()[:200000])
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "m"), vocab_size=300,
        normalization_rule_name="nmt_nfkc", minloglevel=2,
    )  # fmt: skip
    model = sentencepiece_model_pb2.ModelProto.FromString((tmp_path / "m.model").read_bytes())
    table = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    written = json.dumps(trained("GPT2") | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": table}})
    compatible = [
        "ﬁ ﬂ ①②③ ㍿ ｱｲｳ ℡ ½",
        "e\u0301 \u212b \u1e9b\u0323",
        "a\u200bb\u3000c\u00a0d\ufeff",
        "Ⅷ ㎏ ﾞ",
        "x\ty\r\nz",
    ]
    compare(written, [*compatible, *texts(400)])


def test_a_part_of_an_open_file(tmp_path: Path, trained: Callable[[str], dict]) -> None:
    """As Android's assets are given."""
    written, file = json.dumps(trained("GPT2")).encode(), tmp_path / "assets"
    file.write_bytes(b"before" + written + b"behind")
    reference = TextTokenizer(written)
    with file.open("rb") as opened:
        ours = TextTokenizer((opened.fileno(), 6, len(written)))
        assert opened.read(6) == b"before"  # the descriptor stays the caller's
    assert ours.encode("The lamp is lit") == reference.encode("The lamp is lit")
    file.write_bytes(written)
    with file.open("rb") as opened:
        assert TextTokenizer((opened.fileno(), 0, 0)).vocabulary() == reference.vocabulary()
        with pytest.raises(Error):
            TextTokenizer((opened.fileno(), 0, len(written) + 1))


def test_each_piece_of_a_stream_is_whole_characters(trained: Callable[[str], dict]) -> None:
    ours = TextTokenizer(json.dumps(trained("GPT2")).encode())
    text = "\U0001f468\u200d\U0001f469 \u4e2d\u6587 x"
    pieces = ours.stream(ours.encode(text))
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    # Bytes that never become a character are given at the end.
    assert ours.stream(ours.encode("\u4e2d")[:-1])[-1] == "\ufffd"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a\0b", "the text has NUL at byte 1; leave it out"),
        (b"ab\xff", "the text is not UTF-8 at byte 2; convert it first"),
        (b"\xed\xa0\x80", "the text is not UTF-8 at byte 0; convert it first"),
        (b"\xe4\xb8", "the text is not UTF-8 at byte 0; convert it first"),
    ],
)
def test_text_that_is_refused(text: bytes, message: str, trained: Callable[[str], dict]) -> None:
    ours = TextTokenizer(json.dumps(trained("GPT2")).encode())
    with pytest.raises(Error) as refused:
        ours.encode(text)
    assert str(refused.value) == message


_ADVICE = "; use a model with a tokenizer that docs/format.md has, or train on token ids"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, f"pre_tokenizer 'UnicodeScripts' is not supported{_ADVICE}"),
        ({"normalizer": {"type": "Nmt"}}, f"normalizer 'Nmt' is not supported{_ADVICE}"),
        ({"decoder": {"type": "CTC"}}, f"decoder 'CTC' is not supported{_ADVICE}"),
        ({"model": {"type": "WordLevel", "vocab": {}}}, f"model 'WordLevel' is not supported{_ADVICE}"),
        ({"post_processor": {"type": "X"}}, f"post_processor 'X' is not supported{_ADVICE}"),
        ({"decoder": {"type": "Fuse", "x": 1}}, f"decoder Fuse: 'x' is not supported{_ADVICE}"),
        *(
            (
                {place: {"type": kind, key: value}},
                f"{place} {kind}: {key} '{value}', which is not one character, is not supported{_ADVICE}",
            )
            for place, kind, key in [
                ("pre_tokenizer", "Metaspace", "replacement"),
                ("decoder", "Metaspace", "replacement"),
                ("decoder", "Strip", "content"),
            ]
            for value in ("", "ab", "e\u0301")
        ),
        ({"x": 1}, "'x' is not supported; save the tokenizer again"),
        (
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\h"}, "behavior": "Isolated", "invert": False}},
            f"pre_tokenizer Split: the pattern has '\\h', which mebp does not read{_ADVICE}",
        ),
    ],
)
def test_files_that_are_refused(changed: dict, message: str, trained: Callable[[str], dict]) -> None:
    with pytest.raises(Error) as refused:
        TextTokenizer(json.dumps({**trained("GPT2"), **changed}).encode())
    assert str(refused.value) == f"tokenizer.json: {message}"


def test_a_decoder_may_not_make_texts_without_end(trained: Callable[[str], dict]) -> None:
    """Forty times twice as long would be a terabyte."""
    doubling = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    for count, is_read in ((6, True), (40, False)):
        decoder = {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, *[doubling] * count]}
        ours = TextTokenizer(json.dumps({**trained("GPT2"), "decoder": decoder}).encode())
        ids = ours.encode(b"a" * 10_000)
        if is_read:
            assert ours.decode(ids) == "a" * (10_000 << count)
            continue
        with pytest.raises(Error) as refused:
            ours.decode(ids)
        assert str(refused.value) == (
            "a sequence in tokenizer.json makes the text more than 64 times as long; use a model with another "
            "tokenizer, or train on token ids"
        )


def test_json_that_is_refused(tmp_path: Path) -> None:
    for written, message in [
        (b"{", "is not JSON at byte 2; save the tokenizer again"),
        (b"[" * 100, "is nested deeper than 32; save the tokenizer again"),
        (b"{}", "has no model; save the tokenizer again"),
    ]:
        with pytest.raises(Error) as refused:
            TextTokenizer(written)
        assert str(refused.value) == f"tokenizer.json: {message}"
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(200 << 20)
    with pytest.raises(Error, match=r"tokenizer\.json.*209715200 bytes"):
        TextTokenizer(tmp_path)


def test_folders(tmp_path: Path) -> None:
    model = unpack("packaged:smollm2")
    assert TextTokenizer(model).id_of("<|im_start|>") == 1
    with pytest.raises(Error) as refused:
        TextTokenizer(model).id_of("no such token")
    assert str(refused.value) == "no token is 'no such token'; give one as tokenizer.json writes it"
    with pytest.raises(Error) as refused:
        TextTokenizer(tmp_path)
    assert str(refused.value) == f"{tmp_path}: has no tokenizer.json; give a bundle or a model's folder"
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(Error) as refused:
        TextTokenizer(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}/tokenizer: has no tokenizer.json; export the model from a folder that has its tokenizer, and "
        "compile it again"
    )
