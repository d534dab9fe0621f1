# SPDX-License-Identifier: Apache-2.0
"""Preferences and prompts as tokens, against TRL and transformers where they can tell."""

import json

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from mebp.data.preferences import extract_prompt, load_preferences
from mebp.data.prompts import load_prompts
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support import trl_losses
from support.textmodel import CHATML, byte_tokenizer, make_tokenizer

USER = {"role": "user", "content": "Who is there?"}
CHOSEN, REJECTED = ({"role": "assistant", "content": text} for text in ("Only me.", "Nobody"))
TEXTS = {"prompt": "Two and two is", "chosen": " four.", "rejected": " nine."}
TURNS = {"prompt": [USER], "chosen": [CHOSEN], "rejected": [REJECTED]}


def tokenizers(tmp_path, template=CHATML, merges=()):
    """Ours, and transformers'."""
    fast = make_tokenizer(tmp_path / "tokenizer", template, merges)
    return Tokenizer(tmp_path), fast


def write(tmp_path, *samples):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def load(tmp_path, *samples, length=200, template=CHATML, **others):
    return load_preferences(write(tmp_path, *samples), tokenizers(tmp_path, template)[0], length, **others)


def ids(row):
    return row.prompt.tolist(), row.chosen.tolist(), row.rejected.tolist()


def test_texts_are_followed_by_an_end(tmp_path):
    _, fast = tokenizers(tmp_path)
    [row] = load(tmp_path, TEXTS).rows
    expected = [fast(TEXTS["prompt"]), fast(" four.<|endoftext|>"), fast(" nine.<|endoftext|>")]
    assert ids(row) == tuple(each.input_ids for each in expected)
    assert all(each.dtype == np.int32 for each in (row.prompt, row.chosen, row.rejected))


def test_an_end_that_is_written_is_not_doubled(tmp_path):
    [row] = load(tmp_path, {**TEXTS, "chosen": " four.<|endoftext|>"}).rows
    assert ids(row) == ids(load(tmp_path, TEXTS).rows[0])


def test_messages_are_what_the_template_makes_of_them(tmp_path):
    """As TRL's DPOTrainer has it: the prompt with the start of an answer, and all that the template writes after it."""
    _, fast = tokenizers(tmp_path)
    earlier = [USER, CHOSEN, {"role": "user", "content": "Why?"}]
    [row] = load(tmp_path, {**TURNS, "prompt": earlier}).rows
    start = fast.apply_chat_template(earlier, add_generation_prompt=True, return_dict=True)["input_ids"]
    for completion, ours in ((CHOSEN, row.chosen), (REJECTED, row.rejected)):
        whole = fast.apply_chat_template([*earlier, completion], return_dict=True)["input_ids"]
        assert whole[: len(start)] == start
        assert ours.tolist() == whole[len(start) :]
    assert row.prompt.tolist() == start


def test_tools_go_to_the_template(tmp_path):
    template = "{% if tools %}{{ tools[0]['name'] }}{% endif %}" + CHATML
    [row] = load(tmp_path, {**TURNS, "tools": [{"name": "clock"}]}, template=template).rows
    assert bytes(byte_tokenizer().decode(row.prompt[:5].tolist()), "utf8") == b"clock"


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [
        ("Q: 2+2? A: four", "Q: 2+2? A: five"),
        ("one two", "one too"),
        ("The sky", "The sun"),
        ("one two ", "one two x"),
        ("abc", "abcd"),
        ([USER, CHOSEN], [USER, REJECTED]),
        ([USER, CHOSEN], [USER, CHOSEN, USER]),
    ],
)
def test_an_implicit_prompt_is_trls(chosen, rejected):
    prompt, (won, lost) = extract_prompt("data:1", chosen, rejected)
    theirs = trl_losses.trainer("trl.data_utils", "extract_prompt")({"chosen": chosen, "rejected": rejected})
    assert {"prompt": prompt, "chosen": won, "rejected": lost} == theirs


def test_a_prompt_may_be_implicit(tmp_path):
    whole = {key: TEXTS["prompt"] + TEXTS[key] for key in ("chosen", "rejected")}
    turns = {"chosen": [USER, CHOSEN], "rejected": [USER, REJECTED]}
    beside = {"prompt": USER["content"], **turns}  # as in sets that repeat it for reading
    assert ids(load(tmp_path, whole).rows[0]) == ids(load(tmp_path, TEXTS).rows[0])
    for sample in (turns, beside):
        assert ids(load(tmp_path, sample).rows[0]) == ids(load(tmp_path, TURNS).rows[0])


def test_a_completion_keeps_the_prompts_tokens(tmp_path):
    """Where text and prompt share a token, TRL warns and cuts by the count; here each is made tokens of by itself."""
    tokenizer, fast = tokenizers(tmp_path, merges=[("s", "f"), ("e", "r")])
    sample = {"prompt": "is", "chosen": "four", "rejected": " over"}
    data = load_preferences(write(tmp_path, sample), tokenizer, 100)
    assert ids(data.rows[0]) == tuple(
        fast(text).input_ids for text in ("is", "four<|endoftext|>", " over<|endoftext|>")
    )
    assert fast("isfour").input_ids[: len(fast("is").input_ids)] != fast("is").input_ids
    assert data.notes == [
        f"{tmp_path / 'data.jsonl'}: 1 of 2 completions would share a token with their prompt; they were made tokens "
        "of by themselves"
    ]
    assert not load(tmp_path, TEXTS).notes


def test_what_the_model_wants_before_a_text_is_before_the_prompt_alone(tmp_path):
    fast = make_tokenizer(tmp_path / "tokenizer")
    start = fast.convert_tokens_to_ids("<|im_start|>")
    fast.backend_tokenizer.post_processor = TemplateProcessing("<|im_start|> $A", None, [("<|im_start|>", start)])
    fast.save_pretrained(tmp_path / "tokenizer")
    [row] = load_preferences(write(tmp_path, {**TEXTS, "prompt": ""}), Tokenizer(tmp_path), 100).rows
    assert row.prompt.tolist() == [start]
    assert row.chosen.tolist()[-1] == fast.eos_token_id and start not in row.chosen


def test_the_digest_is_of_the_tokens(tmp_path):
    first = load(tmp_path, TEXTS, TURNS).digest
    assert load(tmp_path, {**TEXTS, "score": 3}, TURNS).digest == first
    assert load(tmp_path, TURNS, TEXTS).digest != first
    moved = {"prompt": TEXTS["prompt"] + " ", "chosen": "four.", "rejected": "nine."}
    assert load(tmp_path, moved, TURNS).digest != first


FORGETFUL = "{% if messages | length > 1 %}Again: {% endif %}" + CHATML
REFUSED = [
    (TURNS | {"chosen": [REJECTED]}, '"chosen" and "rejected" are the same, so neither is preferred; leave it out'),
    (TEXTS | {"chosen": " nine.<|endoftext|>"}, '"chosen" and "rejected" are the same tokens, so neither is preferred'),
    (TEXTS | {"chosen": ""}, '"chosen" is empty, so there is nothing to learn; leave it out'),
    (TURNS | {"rejected": []}, '"rejected" is empty, so there is nothing to learn; leave it out'),
    (TEXTS | {"prompt": ""}, "the prompt is empty, so nothing can follow or be learned; leave the sample out"),
    ({"chosen": "yes", "rejected": "no"}, 'has no "prompt", and "chosen" and "rejected" do not begin alike; give'),
    ({"prompt": "a", "chosen": "b"}, 'has no "rejected"; give "prompt", "chosen" and "rejected", or "chosen"'),
    ({"prompt": "a", "completion": "b"}, 'has no "chosen"; give "prompt", "chosen" and "rejected", or "chosen"'),
    (TEXTS | {"chosen": [CHOSEN]}, 'one of "chosen" and "rejected" is text and the other messages; give both alike'),
    (TEXTS | {"prompt": [USER]}, '"prompt" is messages where "chosen" is text; give both alike'),
    (TEXTS | {"chosen": 4}, '"chosen" is a number; give a string'),
    (TURNS | {"chosen": ["me"]}, 'chosen[0] is a string; give {"role", "content"}'),
    (TURNS | {"chosen": [{"role": "robot", "content": ""}]}, 'chosen[0] has the role "robot"; choose one of system'),
    (TURNS | {"chat_template_kwargs": {"x": 1}}, '"chat_template_kwargs" is not read; write what it sets into the'),
    (TURNS | {"tools": 3}, '"tools" is a number; give a list of objects'),
    (
        TEXTS | {"prompt": "word " * 50},
        "has 257 tokens where the bundle takes 200; shorten it, leave it out, or compile",
    ),
    (["a"], "is a list; write one object a line"),
]


@pytest.mark.parametrize(("sample", "line"), REFUSED)
def test_pairs_that_cannot_be_learned_are_refused(tmp_path, sample, line):
    with pytest.raises(Error) as error:
        load(tmp_path, TEXTS, sample)
    assert str(error.value).startswith(f"{tmp_path / 'data.jsonl'}:2: {line}")


def test_what_the_tokenizer_and_the_template_cannot_do_is_refused(tmp_path):
    where = f"{tmp_path / 'data.jsonl'}:1: "
    with pytest.raises(Error) as error:
        load(tmp_path, TEXTS, vocabulary=256)
    assert str(error.value) == (
        f"{where}\"chosen\" has token 256, beyond the model's vocabulary of 256; use the model's own tokenizer"
    )
    load(tmp_path, TEXTS, vocabulary=257)
    with pytest.raises(Error) as error:
        load(tmp_path, TURNS, template=FORGETFUL)
    assert str(error.value).startswith(
        f"{where}the chat template writes the prompt differently when an answer follows, so mebp cannot tell where "
        '"chosen" begins; give'
    )
    with pytest.raises(Error, match="the model's chat template refuses it: no; change the conversation"):
        load(tmp_path, TURNS, template="{{ raise_exception('no') }}")
    with pytest.raises(Error, match="has no text; give another file"):
        load(tmp_path)


def test_messages_need_a_chat_template(tmp_path):
    with pytest.raises(Error, match="this model has no chat template"):
        load(tmp_path, TURNS, template=None)


def test_prompts_keep_their_columns(tmp_path):
    tokenizer, fast = tokenizers(tmp_path)
    path = write(tmp_path, {"prompt": "2+2=", "answer": 4}, {"prompt": [USER], "level": "easy", "completion": "none"})
    first, second = load_prompts(path, tokenizer, 100).rows
    assert (first.written, first.columns) == ("2+2=", {"answer": 4, "level": None})
    assert (second.written, second.columns) == ([USER], {"answer": None, "level": "easy"})
    assert first.ids.tolist() == fast("2+2=").input_ids
    assert (
        second.ids.tolist() == fast.apply_chat_template([USER], add_generation_prompt=True, return_dict=True).input_ids
    )


def test_the_digest_of_prompts_has_their_columns(tmp_path):
    tokenizer, _ = tokenizers(tmp_path)
    digests = {
        load_prompts(write(tmp_path, {"prompt": "2+2=", "answer": answer}), tokenizer, 100).digest
        for answer in (4, 5, 4)
    }
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("sample", "line"),
    [
        ({"question": "2+2="}, 'has no "prompt"; give one, and beside it what the reward function needs'),
        ({"prompt": ""}, "the prompt is empty, so nothing can follow; leave the sample out"),
        ({"prompt": []}, "the prompt is empty, so nothing can follow; leave the sample out"),
        ({"prompt": [USER, CHOSEN]}, 'the prompt ends with a turn of "assistant"; end it with one of the user'),
        (
            {"prompt": "x" * 21},
            "the prompt has 21 tokens where 20 leave room for a completion; shorten it, leave it out",
        ),
        ({"prompt": 3}, '"prompt" is a number; give a string'),
        ({"prompt": "x", "chat_template_kwargs": {"a": 1}}, '"chat_template_kwargs" is not read; write what it sets'),
    ],
)
def test_prompts_that_cannot_be_gone_on_from_are_refused(tmp_path, sample, line):
    tokenizer, _ = tokenizers(tmp_path)
    with pytest.raises(Error) as error:
        load_prompts(write(tmp_path, {"prompt": "x" * 20}, sample), tokenizer, 30, room=10)
    assert str(error.value).startswith(f"{tmp_path / 'data.jsonl'}:2: {line}")
