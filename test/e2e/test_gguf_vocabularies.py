# SPDX-License-Identifier: Apache-2.0
"""Tokenizers in GGUF files, in and out: llama.cpp cuts texts of many scripts into the tokens that transformers does."""

import json
import reprlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mebp.errors import Error
from mebp.gguf.byte_rules import PRE_TOKENIZERS
from mebp.gguf.container import read_container
from mebp.gguf.pieces import MARKED, NOT_CUT, SPACE
from mebp.gguf.vocabulary import _BEGIN, vocabulary, write_tokenizer
from mebp.words import listed
from support.gguf_vocabularies import (
    ACCENTED_TEXTS,
    PLAIN_TEXTS,
    TEXTS,
    WORDS,
    added,
    beginning,
    in_bytes,
    in_pieces,
    write_file,
    write_folder,
)
from support.llama_cpp import LlamaCpp, llama_cpp  # noqa: F401

PREPENDED = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, MARKED]}


def check(llama: LlamaCpp, file: Path, tokenizer: Tokenizer, texts: list[str], begins: bool = True) -> None:
    for text in texts:
        found = llama.tokenize(file, text, vocabulary_only=True)
        assert found == tokenizer.encode(text, add_special_tokens=False).ids, text
    if begins:
        found = llama.tokenize(file, "Hello", vocabulary_only=True, around=True)
        assert found == tokenizer.encode("Hello").ids


def back(file: Path, folder: Path, **keys: object) -> Tokenizer:
    """What is read of a file, with other values of tokenizer.ggml.'s keys."""
    container = read_container(file)
    metadata = container.metadata | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    folder.mkdir(exist_ok=True)
    write_tokenizer(replace(container, metadata=metadata), folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_bytes_are_cut_by_each_rule(tmp_path, name, llama_cpp, capsys):  # noqa: F811
    rule = PRE_TOKENIZERS[name]
    tokenizer = write_folder(tmp_path, beginning(in_bytes(rule.pre_tokenizer, rule.ignores_merges)))
    file = write_file(tmp_path)
    texts = PLAIN_TEXTS if rule.differs else TEXTS
    assert read_container(file).metadata["tokenizer.ggml.pre"] == name
    check(llama_cpp, file, tokenizer, texts)
    # llama.cpp joins no letter and its accent before it cuts a text.
    check(llama_cpp, file, back(file, tmp_path / "back"), PLAIN_TEXTS if rule.composed else texts)
    # What was read is written as the same, and so are the other names of the rule.
    again = vocabulary(tmp_path / "back", WORDS)
    assert {key: read_container(file).metadata[f"tokenizer.ggml.{key}"] for key in again} == again
    assert ("otherwise than transformers\n" in capsys.readouterr().err) == rule.differs
    for other in rule.others:
        found = back(file, tmp_path / "back", pre=other)
        assert all(found.encode(text).ids[1:] == tokenizer.encode(text).ids[1:] for text in PLAIN_TEXTS), other


@pytest.mark.parametrize("name", [name for name, rule in PRE_TOKENIZERS.items() if rule.others])
def test_other_names_of_a_rule_are_the_same_to_llama_cpp(tmp_path, name, llama_cpp):  # noqa: F811
    rule = PRE_TOKENIZERS[name]
    write_folder(tmp_path, in_bytes(rule.pre_tokenizer, rule.ignores_merges))
    file = write_file(tmp_path)
    expected = [llama_cpp.tokenize(file, text, vocabulary_only=True) for text in TEXTS]
    content = file.read_bytes()
    key = b"tokenizer.ggml.pre"
    for other in rule.others:
        start = content.index(key) + len(key) + 4
        length, size = len(name), len(other).to_bytes(8, "little")
        changed = content[:start] + size + other.encode() + content[start + 8 + length :]
        (tmp_path / "other.gguf").write_bytes(changed)
        found = [llama_cpp.tokenize(tmp_path / "other.gguf", text, vocabulary_only=True) for text in TEXTS]
        assert found == expected, other


@pytest.mark.parametrize("name", [name for name, rule in PRE_TOKENIZERS.items() if rule.differs])
def test_words_that_llama_cpp_cuts_otherwise(tmp_path, name, llama_cpp, capsys):  # noqa: F811
    """Where that is not so any more, the warning can go."""
    rule = PRE_TOKENIZERS[name]
    tokenizer = write_folder(tmp_path, in_bytes(rule.pre_tokenizer, rule.ignores_merges))
    file = write_file(tmp_path)
    assert capsys.readouterr().err == (
        f"warning: {tmp_path / 'tokenizer.json'}: llama.cpp's rule '{name}' cuts words with accents of their own, or "
        "with capital letters beyond A to Z, otherwise than transformers\n"
    )
    for text in ACCENTED_TEXTS:
        assert llama_cpp.tokenize(file, text, vocabulary_only=True) != tokenizer.encode(text).ids, text


def test_merges_are_ignored_as_the_rule_has_it(tmp_path, llama_cpp):  # noqa: F811
    """A token that no merges make is one of Llama 3 alone; the same rule has two names for that."""
    rule = PRE_TOKENIZERS["llama-bpe"].pre_tokenizer
    for is_whole, name in ((True, "llama-bpe"), (False, "dbrx")):
        tokenizer = in_bytes(rule, is_whole)
        tokenizer["model"]["vocab"]["xyzzy"] = len(tokenizer["model"]["vocab"])
        made = write_folder(tmp_path, tokenizer)
        file = write_file(tmp_path)
        assert read_container(file).metadata["tokenizer.ggml.pre"] == name
        assert (len(made.encode("xyzzy").ids) == 1) == is_whole
        check(llama_cpp, file, made, ["xyzzy", *TEXTS])
        check(llama_cpp, file, back(file, tmp_path / "back"), ["xyzzy", *TEXTS])


@pytest.mark.parametrize(
    "change",
    [
        lambda splits: [{**splits[0], "behavior": "Removed", "invert": True}, *splits[1:]],
        lambda splits: [{**splits[0], "pattern": {"Regex": splits[0]["pattern"]["Regex"].replace(r"\n", "\n")}},
                        *splits[1:]],
        lambda splits: [{"type": "Sequence", "pretokenizers": splits}],
        lambda splits: [*splits[:-1], {**splits[-1], "trim_offsets": False}],
    ],
)  # fmt: skip
def test_other_ways_to_say_a_rule(tmp_path, change, llama_cpp):  # noqa: F811
    splits = change(PRE_TOKENIZERS["dbrx"].pre_tokenizer["pretokenizers"])
    tokenizer = write_folder(tmp_path, in_bytes({"type": "Sequence", "pretokenizers": splits}))
    file = write_file(tmp_path)
    assert read_container(file).metadata["tokenizer.ggml.pre"] == "dbrx"
    check(llama_cpp, file, tokenizer, TEXTS)


def test_texts_that_end_with_a_token(tmp_path, llama_cpp):  # noqa: F811
    tokenizer = write_folder(tmp_path, beginning(in_bytes(PRE_TOKENIZERS["gpt-2"].pre_tokenizer), "</s>", 1))
    file = write_file(tmp_path)
    check(llama_cpp, file, tokenizer, TEXTS)
    check(llama_cpp, file, back(file, tmp_path / "back"), TEXTS)


def metaspace(scheme: str) -> dict:
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False}


SPACED = ["   leading", " ", " \n a \n\n b", "<|user|>Hello, it's<|end|>\n<|user|> a test</s>"]
UNSPACED = [text for text in TEXTS if text not in SPACED]
TEMPLATE = "{{ messages }}"
# How a tokenizer.json puts spaces, the chat template beside it, what the file says, texts that llama.cpp cuts alike.
PIECES = {
    "Llama 2's": (PREPENDED, None, None, True, TEXTS, ""),
    "Gemma's": (MARKED, NOT_CUT, TEMPLATE, False, TEXTS, ""),
    "Gemma's without a cut": ({"type": "Sequence", "normalizers": [MARKED]}, None, None, False, TEXTS, ""),
    "none": (None, metaspace("never"), None, False, TEXTS, ""),
    "always": (None, metaspace("always"), TEMPLATE, True, UNSPACED,
               "before a piece of text that begins with none alone, and llama.cpp before each between special tokens"),
    "first": (None, metaspace("first"), None, True, UNSPACED,
              "before the first word of a text that begins with no special token alone, and llama.cpp before each "
              "between special tokens"),
    "first in a chat": (None, metaspace("first"), TEMPLATE, False,
                        [f"<|user|>{text}<|end|>\n{text}</s>" for text in TEXTS],
                        "before the first word of a text that begins with no special token alone, and llama.cpp before "
                        "none"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("model_type", ["llama", "gemma2"])
def test_pieces_are_cut_as_llama_cpp_cuts_them(tmp_path, kind, model_type, llama_cpp, capsys):  # noqa: F811
    normalizer, cut, template, is_prefixed, texts, said = PIECES[kind]
    tokenizer = write_folder(tmp_path, beginning(in_pieces(normalizer, cut)), model_type, template)
    file = write_file(tmp_path)
    place = tmp_path / "tokenizer.json"
    assert capsys.readouterr().err == (f"warning: {place}: transformers puts a space {said}\n" if said else "")
    metadata = read_container(file).metadata
    assert (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.add_space_prefix"]) == ("llama", is_prefixed)
    assert "tokenizer.ggml.merges" not in metadata
    check(llama_cpp, file, tokenizer, texts, begins=kind != "first in a chat")
    check(llama_cpp, file, back(file, tmp_path / "back"), TEXTS)
    again = vocabulary(tmp_path / "back", WORDS)
    assert again["add_space_prefix"] == is_prefixed
    assert again["token_type"] == metadata["tokenizer.ggml.token_type"]
    order = sorted(range(WORDS), key=lambda number: -metadata["tokenizer.ggml.scores"][number])
    assert sorted(range(WORDS), key=lambda number: -again["scores"][number]) == order


def test_pieces_across_words(tmp_path, llama_cpp):  # noqa: F811
    """With runs of spaces, and pieces with spaces in them."""
    learned = in_pieces(PREPENDED, None)
    assert any(SPACE in token[1:] for token in learned["model"]["vocab"])
    tokenizer = write_folder(tmp_path, learned)
    check(llama_cpp, write_file(tmp_path), tokenizer, [*TEXTS, "a  b   c    d" + " " * 20 + "e"])


@pytest.mark.parametrize("title", ["tiny", "My Phi-3"])
def test_special_tokens_that_take_the_spaces_behind_them(tmp_path, title, llama_cpp, capsys):  # noqa: F811
    """llama.cpp knows a Phi-3 by the model's name."""
    learned = in_pieces(PREPENDED, None)
    for each in learned["added_tokens"]:
        each["rstrip"] = each["content"] not in ("<unk>", "<s>", "<|endoftext|>")
    tokenizer = write_folder(tmp_path, learned, "phi3")
    file = write_file(tmp_path, title)
    assert read_container(file).metadata["general.name"] == ("tiny (Phi-3)" if title == "tiny" else title)
    assert capsys.readouterr().err == ""
    texts = [*TEXTS, "<|user|>  Hello<|end|>\n <|user|>a", "<s> a", "</s>  a"]
    check(llama_cpp, file, tokenizer, texts)
    check(llama_cpp, file, back(file, tmp_path / "back"), texts)


@pytest.mark.parametrize(("title", "name"), [("not-a-phi-3", "not-a-phi 3"), ("PHI3 like", "PHI 3 like")])
def test_a_name_that_would_take_spaces(tmp_path, title, name, llama_cpp):  # noqa: F811
    tokenizer = write_folder(tmp_path, in_pieces(PREPENDED, None))
    file = write_file(tmp_path, title)
    assert read_container(file).metadata["general.name"] == name
    check(llama_cpp, file, tokenizer, ["<|user|>  Hello<|end|>\n <|user|>a"])


@pytest.mark.parametrize("field", ["lstrip", "rstrip"])
def test_spaces_that_llama_cpp_leaves(tmp_path, field, capsys):
    write_folder(tmp_path, added(in_bytes(PRE_TOKENIZERS["gpt-2"].pre_tokenizer), **{field: True}))
    write_file(tmp_path)
    assert capsys.readouterr().err == (
        f"warning: {tmp_path / 'tokenizer.json'}: transformers takes off the spaces beside <unk>, <s>, </s> and 3 "
        "more, and llama.cpp does not\n"
    )


def with_merges(change: Callable[[list], list]) -> dict:
    tokenizer = in_pieces(PREPENDED, None)
    return {**tokenizer, "model": {**tokenizer["model"], "merges": change(tokenizer["model"]["merges"])}}


def with_runs(change: Callable[[list], list], most: int = 9) -> dict:
    """Runs of spaces, from the longest on as transformers has them, where SentencePiece has given all one score."""
    tokenizer = in_pieces(PREPENDED, None)
    runs = [SPACE * length for length in range(2, most + 1)]
    vocabulary = tokenizer["model"]["vocab"]
    for run in runs:
        vocabulary.setdefault(run, len(vocabulary))
    others = [pair for pair in tokenizer["model"]["merges"] if "".join(pair) not in runs]
    every = [[SPACE * first, SPACE * second] for first in range(most, 0, -1) for second in range(most, 0, -1)
             if first + second <= most]  # fmt: skip
    return {**tokenizer, "model": {**tokenizer["model"], "merges": [*others, *change(every)]}}


@pytest.mark.parametrize("most", [2, 9, 16])
def test_runs_of_one_score(tmp_path, most, llama_cpp):  # noqa: F811
    tokenizer = write_folder(tmp_path, with_runs(list, most))
    spaced = [" " * length + letter for length in range(40) for letter in ("", "a")]
    file = write_file(tmp_path)
    check(llama_cpp, file, tokenizer, [*TEXTS, *spaced])
    check(llama_cpp, file, back(file, tmp_path / "back"), [*TEXTS, *spaced])


def with_added(tokenizer: dict, *tokens: str) -> dict:
    """As a Gemma has them: pieces that are looked for before a text is cut, too."""
    vocabulary = tokenizer["model"]["vocab"]
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    entries = [{"id": vocabulary.setdefault(token, len(vocabulary)), "content": token, **plain} for token in tokens]
    return {**tokenizer, "added_tokens": sorted([*tokenizer["added_tokens"], *entries], key=lambda each: each["id"])}


def test_pieces_that_are_looked_for_before(tmp_path, llama_cpp):  # noqa: F811
    learned = {**with_runs(list), "normalizer": MARKED, "pre_tokenizer": NOT_CUT}
    tokenizer = write_folder(tmp_path, with_added(learned, SPACE * 2, SPACE * 3, "\n\n", "<table>"), "gemma2")
    file = write_file(tmp_path)
    assert read_container(file).metadata["tokenizer.ggml.token_type"].count(4) == 4
    check(llama_cpp, file, tokenizer, [*TEXTS, "a   b <table>  x\n\n\n<table>", f"a{SPACE * 3}b", "    a"])
    check(llama_cpp, file, back(file, tmp_path / "back"), TEXTS)


def without_a_token(tokenizer: dict, token: str) -> dict:
    kept = {each: number for each, number in tokenizer["model"]["vocab"].items() if each != token}
    merges = [pair for pair in tokenizer["model"]["merges"] if token not in (*pair, "".join(pair))]
    return {**tokenizer, "model": {**tokenizer["model"], "vocab": kept, "merges": merges}}


OTHERWISE = "its merges are not those of SentencePiece's pieces, so that llama.cpp would cut a text otherwise at AT"
KNOWN = ("is of a kind that cannot be written as GGUF here; these can: SentencePiece's BPE, and byte-level BPE that "
         f"cuts text by llama.cpp's {listed(PRE_TOKENIZERS)}")  # fmt: skip


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: with_merges(lambda merges: merges[1:]), OTHERWISE.replace("AT", repr(SPACE * 2))),
        # Two tokens whose merges lie among each other's have one score.
        (lambda: with_merges(lambda merges: [*merges, merges[1]]), OTHERWISE.replace("AT", "'BE'")),
        (lambda: with_runs(lambda runs: [*runs[1:], runs[0]]), OTHERWISE.replace("AT", repr(SPACE * 10))),
        (lambda: with_runs(list, 65), OTHERWISE.replace("AT", reprlib.repr(SPACE * 65))),
        (lambda: with_runs(lambda runs: [], 1025), OTHERWISE.replace("AT", reprlib.repr(SPACE * 1025))),
        # A piece with a space is not looked for before: the text has another character there.
        (lambda: with_added(with_merges(lambda merges: merges[1:]), SPACE * 2),
         OTHERWISE.replace("AT", repr(SPACE * 2))),
        (lambda: without_a_token(in_pieces(PREPENDED, None), "<0x41>"), "its vocabulary lacks the byte <0x41>"),
        (lambda: in_pieces(PREPENDED, {**metaspace("always"), "split": True}), KNOWN),
        (lambda: in_pieces(None, {**metaspace("always"), "split": True}), KNOWN),
        (lambda: in_pieces(None, {**metaspace("always"), "replacement": "_"}), KNOWN),
        (lambda: in_pieces({"type": "NFKC"}, None), KNOWN),
        (lambda: in_bytes(PRE_TOKENIZERS["qwen2"].pre_tokenizer, True),
         "has ignore_merges true, which llama.cpp does not compute where text is cut so"),
        (lambda: in_bytes(PRE_TOKENIZERS["tekken"].pre_tokenizer),
         "has ignore_merges false, which llama.cpp does not compute where text is cut so"),
        (lambda: in_bytes({"type": "Whitespace"}), KNOWN),
        (lambda: in_bytes({**PRE_TOKENIZERS["gpt-2"].pre_tokenizer, "add_prefix_space": True}), KNOWN),
        (lambda: {**in_bytes(PRE_TOKENIZERS["qwen2"].pre_tokenizer), "normalizer": {"type": "NFKC"}}, KNOWN),
        (lambda: {**in_pieces(PREPENDED, None), "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]}},
         KNOWN),
    ],
)  # fmt: skip
def test_tokenizers_that_llama_cpp_has_not(tmp_path, make, said):
    tokenizer = make()
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(Error) as caught:
        vocabulary(tmp_path, 4096)
    advice = "write a folder for transformers (-o DIR), and convert that with llama.cpp's convert_hf_to_gguf.py"
    assert str(caught.value) == f"{tmp_path / 'tokenizer.json'}: {said}; {advice}"


def test_every_rule_that_begins_a_text_is_known():
    known = {name for names in PRE_TOKENIZERS.items() for name in (names[0], *names[1].others)}
    assert {name for name, rule in PRE_TOKENIZERS.items() if rule.ignores_merges} <= {*_BEGIN}
    assert {*_BEGIN} - known == {"chameleon"}
