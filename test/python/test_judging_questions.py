# SPDX-License-Identifier: Apache-2.0
import json
import re

import pytest

from mebp.data.forms import Completion, Conversation
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.judging.checks import Choices
from mebp.judging.questions import Question, read_questions

WHO = {"role": "user", "content": "Who?"}
ME = {"role": "assistant", "content": "I."}


def read(tmp_path, *entries: dict, judged: bool = False) -> list[Question]:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return read_questions(Source.of(path), judged)


@pytest.mark.parametrize(
    ("entry", "prompt", "sample"),
    [
        ({"messages": [WHO, ME], "accept": ["I"]}, [WHO], [WHO, ME]),
        ({"messages": [WHO], "accept": ["I"]}, [WHO], [WHO, {**ME, "content": "I"}]),
        ({"messages": [WHO, ME, WHO, ME]}, [WHO, ME, WHO], [WHO, ME, WHO, ME]),
        ({"prompt": "Who?", "accept": [" I"]}, "Who?", " I"),
        ({"prompt": "Who?", "match": {"contains": "I"}}, "Who?", None),
        ({"prompt": "Who?", "completion": " I."}, "Who?", " I."),
        ({"prompt": [WHO], "match": {"exact": "I."}}, [WHO], [WHO, ME]),
        ({"question": "Who?", "answer": "I.", "accept": ["I"]}, [WHO], [WHO, ME]),
        ({"question": "Who?", "choices": ["I.", "You."], "answer": 0}, [WHO], [WHO, ME]),
        ({"instruction": "Who?", "output": "I."}, [WHO], [WHO, ME]),
    ],
)
def test_what_is_asked_and_whose_loss_is_measured(tmp_path, entry, prompt, sample):
    (question,) = read(tmp_path, entry)
    assert question.text.prompt == prompt
    found = question.sample
    if isinstance(found, Completion):
        assert found.completion == sample
    else:
        assert (found and found.messages) == sample and isinstance(found, Conversation | None)
    assert question.shown == "Who?"


def test_the_right_choice_is_what_is_learned_whatever_else_is_written(tmp_path):
    (question,) = read(tmp_path, {"messages": [WHO, ME], "choices": ["I.", "You."], "answer": 1})
    assert isinstance(question.check, Choices) and question.sample.messages[-1]["content"] == "You."


def test_a_function_sees_the_columns_of_all(tmp_path):
    first, second = read(tmp_path, {"prompt": "Who?", "age": 3}, {"prompt": "Why?", "name": "x"}, judged=True)
    assert first.columns == {"age": 3, "name": None} and second.columns == {"age": None, "name": "x"}


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"prompt": "Who?"}, "says neither what is right nor how the answer goes; give"),
        ({"messages": [WHO]}, "says neither what is right nor how the answer goes; give"),
        ({"text": "Who?", "accept": ["I"]}, "is a text on its own, which asks nothing; give"),
        ({"prompt": "", "accept": ["I"]}, "the prompt is empty, so nothing can follow; leave the sample out"),
        ({"prompt": [ME], "accept": ["I"]}, 'what is asked ends with a turn of "assistant"; end it with one of the'),
        ({"messages": [ME], "accept": ["I"]}, "what is asked is empty; end it with one of the user"),
        ({"messages": [], "accept": ["I"]}, "what is asked is empty; end it with one of the user"),
        ({"accept": ["I"]}, 'is empty; give "text"'),
        ({"messages": [WHO, ME], "accept": []}, '"accept" is empty, so no answer can be right'),
    ],
)
def test_what_cannot_be_judged_is_refused_with_its_line(tmp_path, entry, line):
    with pytest.raises(Error, match=re.escape(f"questions.jsonl:2: {line}")):
        read(tmp_path, {"prompt": "Who?", "accept": ["I"]}, entry)
