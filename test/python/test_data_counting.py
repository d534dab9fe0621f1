# SPDX-License-Identifier: Apache-2.0
"""What --loss-on, --turn-weights and --empty-thoughts let count, and where they have nothing to act on."""

import json
from pathlib import Path

import numpy as np
import pytest

from mebp.data import Dataset, load_dataset
from mebp.data.counting import Counting
from mebp.data.loading import check_counting
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.turns import ANSWERED, ASKED, CALLS, TWICE, make

# As Qwen 3: the thoughts of earlier answers go, and the last one always has one.
THINKING = (
    "{% for m in messages %}{% set text = m.content.split('</think>') %}"
    "{{ '<|' + m.role + '|>' }}{% if m.role == 'assistant' %}"
    "{{ '<think>\n' + (text[0].split('<think>')[-1].strip() if text | length > 1 else '') + '\n</think>\n\n' "
    "if loop.last }}{{ text[-1].strip() }}{% for call in m.tool_calls or [] %}{{ '[call]' }}{% endfor %}"
    "{{ '<|end|>' }}{% else %}{{ m.content + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
MARKS = ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>", "<|system|>")
THOUGHTS = [
    {**turn, "content": f"<think>Hm {index}.</think>{turn['content']}"} if turn["role"] == "assistant" else turn
    for index, turn in enumerate(TWICE)
]
TOOLS = [
    {"role": "system", "content": "Be brief."}, *ASKED, {"role": "assistant", "content": "", "tool_calls": CALLS},
    {"role": "tool", "content": "42"}, {"role": "assistant", "content": "It is 42."},
]  # fmt: skip
EMPTY = "<think>\n\n</think>\n\n"


@pytest.fixture
def tokenizer(tmp_path) -> Tokenizer:
    return make(tmp_path, THINKING, MARKS)


def load(folder: Path, tokenizer: Tokenizer, *samples: dict, length: int = 500, **options: object) -> Dataset:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    named = {"loss_on": None, "turn_weights": False, "empty_thoughts": None, **options}
    return load_dataset(Source.of(path, counting=Counting.read(**named)), tokenizer, length)


def counted(data: Dataset, tokenizer: Tokenizer) -> list[list[str]]:
    """Of each row the texts of tokens that count side by side."""
    rows = []
    for row in data.rows:
        flags = np.concatenate([[False], row.labels >= 0, [False]]).astype(int)
        begins, ends = (np.flatnonzero(np.diff(flags) == sign) for sign in (1, -1))
        decode = tokenizer.backend.decode
        rows.append([decode(row.ids[a:b], skip_special_tokens=False) for a, b in zip(begins, ends, strict=True)])
    return rows


def whole(row, tokenizer: Tokenizer) -> str:
    return tokenizer.backend.decode(row.ids, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (None, [["Me.<|end|>", "<think>\nHm 3.\n</think>\n\nSo.<|end|>"]]),
        ("assistant", [["Me.<|end|>", "<think>\nHm 3.\n</think>\n\nSo.<|end|>"]]),
        ("last", [["<think>\nHm 3.\n</think>\n\nSo.<|end|>"]]),
        ("turns", [["<think>\nHm 1.\n</think>\n\nMe.<|end|>"], ["<think>\nHm 3.\n</think>\n\nSo.<|end|>"]]),
        (
            "all",
            [
                [
                    "<|user|>Who?\n<|assistant|>Me.<|end|><|user|>Why?\n<|assistant|><think>\nHm 3.\n</think>\n\n"
                    "So.<|end|>"
                ]
            ],
        ),
    ],
)
def test_thoughts(tmp_path, tokenizer, on, expected):
    assert counted(load(tmp_path, tokenizer, {"messages": THOUGHTS}, loss_on=on), tokenizer) == expected


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("assistant", [["[call]<|end|>", "It is 42.<|end|>"]]),
        ("last", [["It is 42.<|end|>"]]),
        ("turns", [["[call]<|end|>"], ["It is 42.<|end|>"]]),
    ],
)
def test_what_a_tool_gives_does_not_count(tmp_path, tokenizer, on, expected):
    data = load(tmp_path, tokenizer, {"messages": TOOLS}, loss_on=on)
    assert counted(data, tokenizer) == expected
    assert "42\n" in whole(data.rows[-1], tokenizer)


def test_all_is_every_token(tmp_path, tokenizer):
    (row,) = load(tmp_path, tokenizer, {"messages": TOOLS}, loss_on="all", empty_thoughts="learn").rows
    assert row.labels.tolist() == row.ids.tolist()
    (row,) = load(tmp_path, tokenizer, {"prompt": "Who?", "completion": " I."}, loss_on="all").rows
    assert row.labels.tolist() == row.ids.tolist() == [*tokenizer.encode("Who? I."), tokenizer.end_of_sequence]


@pytest.mark.parametrize("on", ["assistant", "last", "turns", "all"])
def test_an_empty_thought(tmp_path, tokenizer, on):
    skipped = load(tmp_path, tokenizer, {"messages": ANSWERED}, loss_on=on)
    learned = load(tmp_path, tokenizer, {"messages": ANSWERED}, loss_on=on, empty_thoughts="learn")
    before = "<|user|>Who?\n<|assistant|>" if on == "all" else ""
    assert counted(skipped, tokenizer) == [[*([before] if before else []), "Me.<|end|>"]]
    assert counted(learned, tokenizer) == [[f"{before}{EMPTY}Me.<|end|>"]]
    assert skipped.rows[0].ids.tolist() == learned.rows[0].ids.tolist()


@pytest.mark.parametrize("on", ["assistant", "all"])
def test_an_empty_thought_of_a_completion(tmp_path, tokenizer, on):
    sample = {"prompt": "Who?", "completion": f"{EMPTY}Me."}
    skipped, learned = (
        load(tmp_path, tokenizer, sample, loss_on=on, empty_thoughts=choice) for choice in ("skip", "learn")
    )
    before = "Who?" if on == "all" else ""
    assert counted(skipped, tokenizer) == [[*([before] if before else []), "Me.<|endoftext|>"]]
    assert counted(learned, tokenizer) == [[f"{before}{EMPTY}Me.<|endoftext|>"]]


# Nemotron 3 and Qwen 3.5 open the thought in the prompt; Qwen 3.5 without thinking closes it, too.
OPENING = THINKING.replace("'<|assistant|>' }}{% endif %}", "'<|assistant|><think>\n' }}{% endif %}")
CLOSING = THINKING.replace("'<|assistant|>' }}{% endif %}", "'<|assistant|><think>\n\n</think>\n\n' }}{% endif %}")
OWN_MARKS = OPENING.replace("<think>\n' + (", "' + (").replace(
    "{{ '' + (", "{% generation %}{{ '<think>\n' + ("
).replace("{{ '<|end|>' }}", "{{ '<|end|>' }}{% endgeneration %}")  # fmt: skip


@pytest.mark.parametrize(
    ("template", "choice", "expected"),
    [
        (OPENING, "skip", ["Hm 3.\n</think>\n\nSo.<|end|>", "Me.<|end|>"]),
        (OPENING, "learn", ["Hm 3.\n</think>\n\nSo.<|end|>", "\n</think>\n\nMe.<|end|>"]),
        (CLOSING, "skip", ["<think>\nHm 3.\n</think>\n\nSo.<|end|>", "Me.<|end|>"]),
        (CLOSING, "learn", ["<think>\nHm 3.\n</think>\n\nSo.<|end|>", f"{EMPTY}Me.<|end|>"]),
        (OWN_MARKS, "skip", ["Hm 3.\n</think>\n\nSo.<|end|>", "Me.<|end|>"]),
    ],
)
def test_what_the_prompt_writes_does_not_count(tmp_path, template, choice, expected):
    tokenizer = make(tmp_path, template, MARKS)
    samples = [{"messages": THOUGHTS}, {"messages": ANSWERED}]
    data = load(tmp_path, tokenizer, *samples, loss_on="last", empty_thoughts=choice)
    assert counted(data, tokenizer) == [[each] for each in expected]


def test_each_turn_sees_what_it_is_asked_with(tmp_path, tokenizer):
    data = load(tmp_path, tokenizer, {"messages": [*THOUGHTS, ASKED[0]]}, loss_on="turns")
    assert [whole(row, tokenizer) for row in data.rows] == [
        "<|user|>Who?\n<|assistant|><think>\nHm 1.\n</think>\n\nMe.<|end|>",
        "<|user|>Who?\n<|assistant|>Me.<|end|><|user|>Why?\n<|assistant|><think>\nHm 3.\n</think>\n\nSo.<|end|>",
    ]
    assert data.notes == [f"{tmp_path}/data.jsonl: 2 samples of 1 conversations, one for each turn of the assistant"]


def masked(index: int) -> list[dict]:
    return [{**turn, "weight": 0} if at == index else turn for at, turn in enumerate(TWICE)]


@pytest.mark.parametrize(
    ("on", "index", "expected"),
    [
        ("turns", 1, [[f"{EMPTY}So.<|end|>"]]),
        ("turns", 3, [[f"{EMPTY}Me.<|end|>"]]),
        ("last", 1, [[f"{EMPTY}So.<|end|>"]]),
        ("all", 1, [["<|user|>Who?\n<|assistant|>", f"<|user|>Why?\n<|assistant|>{EMPTY}So.<|end|>"]]),
        ("all", 3, [["<|user|>Who?\n<|assistant|>Me.<|end|><|user|>Why?\n<|assistant|>"]]),
    ],
)
def test_a_turn_that_is_marked_does_not_count(tmp_path, tokenizer, on, index, expected):
    data = load(tmp_path, tokenizer, {"messages": masked(index)}, loss_on=on, empty_thoughts="learn")
    assert counted(data, tokenizer) == expected


def test_the_last_turn_that_is_marked_leaves_nothing(tmp_path, tokenizer):
    data = load(tmp_path, tokenizer, {"messages": masked(3)}, {"messages": TWICE}, loss_on="last")
    assert len(data.rows) == 1
    assert data.notes == [f"{tmp_path}/data.jsonl: 1 of 2 samples are marked as not to be learned"]


def test_a_prompt_of_messages(tmp_path, tokenizer):
    sample = {"prompt": TWICE[:3], "completion": TWICE[3:]}
    learned = counted(load(tmp_path, tokenizer, sample), tokenizer)
    assert learned == counted(load(tmp_path, tokenizer, sample, loss_on="turns"), tokenizer) == [["So.<|end|>"]]
    (row,) = load(tmp_path, tokenizer, sample, loss_on="all", empty_thoughts="learn").rows
    assert row.labels.tolist() == row.ids.tolist()


# It writes no answer as it is given, so nobody can tell where one is.
HIDING = "{{ '<|user|>' }}{% for m in messages %}{{ m.content[::-1] + '\n' }}{% endfor %}" + (
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def test_all_needs_no_turns_but_to_leave_one_out(tmp_path):
    tokenizer = make(tmp_path, HIDING, MARKS)
    (row,) = load(tmp_path, tokenizer, {"messages": TWICE}, loss_on="all").rows
    assert row.labels.tolist() == row.ids.tolist()
    with pytest.raises(Error, match=r"data.jsonl:1: .* cannot find the turn that counts otherwise than the rest; mark"):
        load(tmp_path, tokenizer, {"messages": masked(1)}, loss_on="all")


def weighing(*weights: float) -> list[dict]:
    given = iter(weights)
    return [{**turn, "weight": next(given)} if turn["role"] == "assistant" else turn for turn in TWICE]


def by_text(row, tokenizer: Tokenizer) -> dict[float, str]:
    decode = tokenizer.backend.decode
    return {
        float(weight): decode(row.ids[row.weights == weight], skip_special_tokens=False)
        for weight in np.unique(row.weights)
        if weight
    }


def test_weights_multiply(tmp_path, tokenizer):
    samples = [{"messages": weighing(0.5, 2)}, {"messages": weighing(0, 3), "weight": 0.5}, {"messages": TWICE}]
    data = load(tmp_path, tokenizer, *samples, turn_weights=True)
    assert data.weighted and not data.notes
    assert [by_text(row, tokenizer) for row in data.rows] == [
        {0.5: "Me.<|end|>", 2.0: "So.<|end|>"},
        {1.5: "So.<|end|>"},
        {1.0: "Me.<|end|>So.<|end|>"},
    ]
    for row in data.rows:
        assert ((row.weights > 0) == (row.labels >= 0)).all()
    assert data.weights_of([0, 1]).shape == (2, max(map(len, data.rows)))


def test_weights_of_completions_and_of_all(tmp_path, tokenizer):
    pair = {"prompt": "Who?", "completion": " I."}
    data = load(tmp_path, tokenizer, {**pair, "weight": 0.25}, pair, turn_weights=True)
    assert [by_text(row, tokenizer) for row in data.rows] == [{0.25: " I.<|endoftext|>"}, {1.0: " I.<|endoftext|>"}]
    (row,) = load(tmp_path, tokenizer, {"messages": weighing(2, 1)}, turn_weights=True, loss_on="all").rows
    assert by_text(row, tokenizer) == {
        1.0: "<|user|>Who?\n<|assistant|><|user|>Why?\n<|assistant|>So.<|end|>", 2.0: "Me.<|end|>",
    }  # fmt: skip


def test_weights_of_a_table(tmp_path, tokenizer):
    path = tmp_path / "data.csv"
    path.write_text("prompt,completion,weight\nWho?, I.,0.25\nWho?, I.,\nWho?, I.,2\n")
    data = load_dataset(Source.of(path, counting=Counting(weighs=True)), tokenizer, 500)
    weights = [float(row.weights.max()) for row in data.rows]
    assert weights == [0.25, 1.0, 2.0]


def test_other_marks_stay_marks(tmp_path, tokenizer):
    sample = {"messages": TWICE, "label": 3}
    with pytest.raises(Error, match=r'"label" is 3; give 1 to learn it, or 0 to leave it out$'):
        load(tmp_path, tokenizer, sample, turn_weights=True)
    (row,) = load(tmp_path, tokenizer, {"messages": weighing(0.5, 2), "label": True}, turn_weights=True).rows
    assert by_text(row, tokenizer) == {0.5: "Me.<|end|>", 2.0: "So.<|end|>"}


def test_weights_of_a_template_s_own_marks(tmp_path):
    tokenizer = make(tmp_path, OWN_MARKS, MARKS)
    (row,) = load(tmp_path, tokenizer, {"messages": weighing(0.5, 2)}, turn_weights=True).rows
    assert by_text(row, tokenizer) == {0.5: "Me.<|end|>", 2.0: "So.<|end|>"}


def test_weights_are_of_what_is_learned_in_the_digest(tmp_path, tokenizer):
    digests = {load(tmp_path, tokenizer, {"messages": weighing(*each)}, turn_weights=True).digest
               for each in ((1, 2), (2, 1), (1, 1))}  # fmt: skip
    assert len(digests) == 3


def test_weights_that_change_nothing_are_told(tmp_path, tokenizer):
    note = "data.jsonl: has no weight but 0 and 1, so --turn-weights changes nothing"
    assert load(tmp_path, tokenizer, {"messages": TWICE}, turn_weights=True).notes == [f"{tmp_path}/{note}"]


@pytest.mark.parametrize("weight", [-1, 1e7, float("nan")])
def test_a_number_that_is_no_weight_is_refused(tmp_path, tokenizer, weight):
    with pytest.raises(Error, match=r'messages\[1\]: "weight" is .*; give a weight from 0, which leaves it out, to'):
        load(tmp_path, tokenizer, {"messages": weighing(weight, 1)}, turn_weights=True)


def test_a_weight_without_the_option_is_refused(tmp_path, tokenizer):
    with pytest.raises(Error, match=r'"weight" is 0.5; give 1 .*, or 0 to leave it out; with --turn-weights it multi'):
        load(tmp_path, tokenizer, {"messages": weighing(0.5, 1)})
    with pytest.raises(Error, match=r'"weight" is 0.5; give 1 to learn it, or 0 to leave it out$'):
        load(tmp_path, tokenizer, {"text": "a", "weight": 0.5}, turn_weights=True)


def test_a_large_file_has_the_same_weights(tmp_path, tokenizer, monkeypatch):
    samples = [{"messages": weighing(0.5, 2)}, {"messages": TWICE}]
    expected = load(tmp_path, tokenizer, *samples, turn_weights=True)
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.data.keeping._KEPT", 0)
    digests = set()
    for options in ({}, {"loss_on": "turns"}, {"loss_on": "all"}, {"empty_thoughts": "learn"}):
        plain = load(tmp_path, tokenizer, {"messages": TWICE}, **options)
        again = load(tmp_path, tokenizer, {"messages": TWICE}, **options)
        assert plain.digest == again.digest and not plain.weighted
        digests.add(plain.digest)
    assert len(digests) == 4  # each from an entry of its own
    found = load(tmp_path, tokenizer, *samples, turn_weights=True)
    assert found.digest == expected.digest and found.weighted
    for one, other in zip(found.rows, expected.rows, strict=True):
        assert one.weights.tolist() == other.weights.tolist() and one.labels.tolist() == other.labels.tolist()
    (file,) = (each for each in (tmp_path / "cache").glob("tokens/*/weights") if each.stat().st_size)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(Error, match="is damaged; delete it, and it is made again"):
        load(tmp_path, tokenizer, *samples, turn_weights=True)


PAIR, TEXT = {"prompt": "Who?", "completion": " I."}, {"text": "Who?"}
IS_TEXT = "{option}: {file} has no answers: it is text, all of which counts; leave {option} out"
NO_TURNS = "{option}: {file} has no turns to choose from; give --loss-on all, or leave it out"


@pytest.mark.parametrize(
    ("sample", "options", "option", "message"),
    [
        (TEXT, {"loss_on": "all"}, "--loss-on all", IS_TEXT),
        (TEXT, {"turn_weights": True}, "--turn-weights", IS_TEXT),
        (TEXT, {"empty_thoughts": "learn"}, "--empty-thoughts learn", IS_TEXT),
        (PAIR, {"loss_on": "last"}, "--loss-on last", NO_TURNS),
        (PAIR, {"loss_on": "turns"}, "--loss-on turns", NO_TURNS),
    ],
)
def test_an_option_without_anything_to_act_on_is_refused(tmp_path, sample, options, option, message):
    file, other = tmp_path / "data.jsonl", tmp_path / "turns.jsonl"
    file.write_text(json.dumps(sample))
    other.write_text(json.dumps({"messages": TWICE}))
    counting = Counting.read(**{"loss_on": None, "turn_weights": False, "empty_thoughts": None, **options})
    with pytest.raises(Error) as caught:
        check_counting([Source.of(file, counting=counting)])
    assert str(caught.value) == message.format(option=option, file=file)
    check_counting([Source.of(path, counting=counting) for path in (file, other)])  # one has what it is about


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("user", False, None), "--loss-on is 'user'; choose assistant, last, all or turns"),
        ((None, False, "never"), "--empty-thoughts is 'never'; choose skip or learn"),
    ],
)
def test_a_value_that_there_is_not(given, message):
    with pytest.raises(Error) as caught:
        Counting.read(*given)
    assert str(caught.value) == message


def test_the_default_is_the_default():
    assert str(Counting.read("assistant", False, "skip")) == str(Counting()) == ""
    assert set(Counting.read("assistant", None, None).description().values()) == {None}
