# SPDX-License-Identifier: Apache-2.0
"""JSON lines as C++ reads them for a run without Python: rows, labels and their order are those of `mebp train`, with
the tokens of one tokenizer; or the file is refused, by the line."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mebp.data.thoughts import end_of_empty_thought
from mebp.errors import Error
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer
from support.text_rows import Run

EXAMPLES = Path(__file__).parents[2] / "examples"
_UNREAD = ", which is not read without Python; leave it out, or train with mebp train"
_WANTED = '; give "text", "prompt" and "completion", or "messages", or train with mebp train, which reads more'
# Files of other objectives, or with more than text: Python reads them, or refuses them in a line of its own.
REFUSED = {
    "brindle_rock_notes.jsonl": f':1: has "label"{_UNREAD}',
    "brindle_rock_notes_questions.jsonl": f':1: has "label"{_UNREAD}',
    "brindle_rock_pairs.jsonl": f':1: has "prompt"{_WANTED}',
    "brindle_rock_pairs_questions.jsonl": f':1: has "prompt"{_WANTED}',
    "brindle_rock_questions.jsonl": f':1: has "accept"{_UNREAD}',
    "open_questions.jsonl": f':1: has "prompt"{_WANTED}',
}
WORDS = [
    *["the", "lamp", "is", "lit", "at", "dusk,", "it's", "42", "end.", "x", "<|im_end|>"],
    *("", "\n\n", "\t", "caf\u00e9", "\u0436\u0443\u043a", "\u4e2d\u6587", "\U0001f600"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.of_model(unpack("packaged:smollm2"))


def check(run: Run, tokenizer: Tokenizer) -> None:
    expected, said = run.by_python(tokenizer)
    found, notes = run.by_runtime(tokenizer)
    assert sorted(notes) == sorted(said)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or np.array_equal(ours, theirs)


def text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(0, 12)))


def mark(chance: random.Random) -> dict:
    if chance.random() < 0.7:
        return {}
    return {chance.choice(["train", "weight", "loss_mask", "label"]): chance.choice([True, False, 1, 0, 1.0, None])}


def documents(chance: random.Random) -> dict:
    return {"text": text(chance), **mark(chance)}


def completions(chance: random.Random) -> dict:
    thought = chance.choice(["", "", "<think>\n\n</think>\n\n", "<think></think>", "\n<THINK> </THINK>", "<think>"])
    return {"prompt": text(chance), "completion": thought + (text(chance) or "."), **mark(chance)}


def thoughts(chance: random.Random) -> dict:
    """Completions that begin with two tags of a thought, or with what is almost that: names of other letters, or of
    signs that only Unicode takes for those of ASCII."""

    def one_of(usual: list[str], others: list[str]) -> str:
        return chance.choice(others if chance.random() < 0.1 else usual)

    def tag() -> str:
        ends = [one_of(["", "a", ":", "_7", "x" * 20], ["x" * 21, "\u0436", "\u00e9", "\u0663", "-"]) for _ in range(2)]
        word = one_of(["think", "Thought", "REASON"], ["th\u0131nk", "thin\u212a", "rea\u017fon", "THOUGHT\u0130"])
        return chance.choice("<[\u25c1") + chance.choice(["", "|", "/", "|/"]) + word.join(ends) + chance.choice("]>")

    def space() -> str:
        return one_of(["", "\n", "\n\n", " \u3000\x1c", " " * 9], ["\u200b", " " * 10])

    thought = space() + tag() + space() + tag() + space()
    return {"prompt": text(chance), "completion": thought + (text(chance) or ".")}


def conversations(chance: random.Random) -> dict:
    def content() -> object:
        if chance.random() < 0.8:
            return text(chance)
        return [{"type": "text", "text": text(chance)} for _ in range(chance.randint(1, 2))]

    turns = [{"role": "system", "content": text(chance)}] if chance.random() < 0.3 else []
    for _ in range(chance.randint(1, 3)):
        turns += [
            {"role": "user", "content": content()},
            {"role": "assistant", "content": content(), **mark(chance)},
        ]
    return {"messages": turns, **mark(chance)}


def lines(kind, seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(40):
        yield json.dumps(kind(chance), ensure_ascii=chance.random() < 0.5)
        if chance.random() < 0.1:
            yield ""


@pytest.mark.parametrize("name", sorted(each.name for each in EXAMPLES.glob("*.jsonl")))
def test_each_example_has_the_same_rows_or_is_refused(name, tokenizer):
    run = Run(EXAMPLES / name, length=96, shares=True, steps=5)
    if name not in REFUSED:
        check(run, tokenizer)
        return
    with pytest.raises(Error) as refused:
        run.by_runtime(tokenizer)
    assert str(refused.value) == f"{run.file}{REFUSED[name]}"


@pytest.mark.parametrize("shares", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [documents, completions, conversations])
def test_files_of_each_form_have_the_same_rows(tmp_path, tokenizer, kind, seed, shares):
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(lines(kind, seed)), encoding="utf-8")
    check(Run(file, length=40, shares=shares, seed=seed, batch=1 + seed, steps=30), tokenizer)


def test_thoughts_without_a_word_are_told_alike(tmp_path, tokenizer):
    chance = random.Random(4)
    samples = [thoughts(chance) for _ in range(400)]
    told = [end_of_empty_thought(sample["completion"]) for sample in samples]
    assert 40 < sum(end is not None for end in told) < 360
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(map(json.dumps, samples)))
    check(Run(file, length=200, batch=4, steps=100), tokenizer)


@pytest.mark.parametrize("loss_on", ["last", "all", "turns"])
def test_loss_on_chooses_the_same_tokens(tmp_path, tokenizer, loss_on):
    file = tmp_path / "data.jsonl"
    for kind in [conversations] if loss_on != "all" else [conversations, completions]:
        file.write_text("\n".join(lines(kind, 7)), encoding="utf-8")
        check(Run(file, length=80, loss_on=loss_on, steps=20), tokenizer)


def test_many_rows_come_in_numpy_s_order(tmp_path, tokenizer):
    """More than a generator draws with one word, and seeds of two."""
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": f"{i}", "completion": "a"}) for i in range(3000)))
    for seed in (0, 1 << 40):
        check(Run(file, shares=True, seed=seed, batch=4, steps=60), tokenizer)
