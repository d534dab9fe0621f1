# SPDX-License-Identifier: Apache-2.0
"""The examples' data and scripts, and that what a brief training teaches means the same in PEFT."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rewards import one_short_sentence
from score import Question, read_questions

from mebp.errors import Error
from support.commands import TIMEOUT, mebp
from support.textmodel import make_text_bundle

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DATA, QUESTIONS = EXAMPLES / "brindle_rock.jsonl", EXAMPLES / "brindle_rock_questions.jsonl"


def taught() -> list[tuple[str, str]]:
    """Question and answer of each line to train on."""
    turns = [json.loads(line)["messages"] for line in DATA.read_text(encoding="utf-8").splitlines()]
    assert all([turn["role"] for turn in sample] == ["user", "assistant"] for sample in turns)
    return [tuple(turn["content"] for turn in sample) for sample in turns]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def script(name: str, *arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    # Two of torch's threads wait by spinning where another process has a core.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment)


def test_pairs_that_are_preferred(tmp_path):
    """One way round or the other."""
    bundle, lines = make_text_bundle(tmp_path, seq_len=48, batch=1), [("a lamp", "oil"), ("a wick", "trim it")]
    counts = []
    for first, second in (("chosen", "rejected"), ("rejected", "chosen")):
        pairs = tmp_path / f"{first}.jsonl"
        pairs.write_text("".join(json.dumps({"prompt": "The", first: a, second: b}) + "\n" for a, b in lines))
        run = script("prefer.py", bundle, "--pairs", pairs)
        assert run.returncode == 0, run.stderr
        counts.append(int(re.fullmatch(r"of (\d) in 2 pairs the chosen answer is likelier \(\d+%\)\n", run.stdout)[1]))
    assert sum(counts) == 2
    run = script("prefer.py", tmp_path / "none.mebp", "--pairs", pairs)
    assert run.returncode == 2 and run.stderr.startswith("prefer.py: ") and len(run.stderr.splitlines()) == 1


def test_no_question_is_trained_on():
    trained = [words(question) for question, _ in taught()]
    assert len(trained) == 150 and len({tuple(question) for question in trained}) == 150
    questions = read_questions(QUESTIONS)
    assert len(questions) == 30
    for question in questions:
        assert words(question.text) not in trained, question.text
        assert not question.is_answered_by(question.text), question.text


def test_one_trained_fact_answers_each_question():
    for question in read_questions(QUESTIONS):
        answers = [answer for _, answer in taught() if question.is_answered_by(answer)]
        assert len(set(answers)) == 1 and len(answers) >= 3, (question, set(answers))


def test_pairs_are_the_taught_answers_and_wrong_ones():
    for name in ("brindle_rock", "brindle_rock_questions"):
        pairs = [json.loads(line) for line in (EXAMPLES / f"{name.replace('rock', 'rock_pairs')}.jsonl").open()]
        source = [json.loads(line)["messages"] for line in (EXAMPLES / f"{name}.jsonl").open()]
        assert [[*pair["prompt"], *pair["chosen"]] for pair in pairs] == source
        assert all(pair["chosen"] != pair["rejected"] for pair in pairs)


def test_the_reward_is_for_one_short_sentence():
    (ten, three, two_sentences, long) = one_short_sentence(
        [
            "It is made of flour, water, salt and some yeast.",
            "It is bread.",
            "It is made of flour. It rises with some yeast.",
            [{"role": "assistant", "content": "word " * 50}],
        ]
    )
    assert ten == 1 > three > long == 0
    assert ten > two_sentences > three / 2


def test_an_answer_needs_the_whole_word_in_any_case():
    question = Question("?", ["31", "Old Agnes"])
    for answer in ("Channel 31.", "31", "It is called old agnes!", '"Old Agnes"'):
        assert question.is_answered_by(answer), answer
    for answer in ("In 1931.", "310", "Old", "Agnes", "Bold Agnes", ""):
        assert not question.is_answered_by(answer), answer
    assert not Question("?", ["a.c"]).is_answered_by("abc")


ANSWER = '{"role": "assistant", "content": "I."}'
TURNS = '{"role": "user", "content": "Who?"}, ' + ANSWER


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "has no text"),
        ("Who?", ":1: is not JSON ("),
        ('{"text": "Who?", "accept": ["I"]}', ":1: is not one question and its answer; give these two as"),
        (f'{{"messages": [{ANSWER}], "accept": ["I"]}}', ":1: is not one question and its answer; give these two as"),
        (f'{{"messages": [{TURNS}, {TURNS}], "accept": ["I"]}}', ":1: is not one question and its answer; give these"),
        (f'{{"messages": [{TURNS}], "accept": ["I"]}}\n\n{{"messages": [{TURNS}]}}', ":3: does not say which words"),
        (f'{{"messages": [{TURNS}], "accept": "I"}}', ":1: does not say which words are right; give"),
        (f'{{"messages": [{TURNS}], "accept": []}}', ":1: does not say which words are right; give"),
        (f'{{"messages": [{TURNS}], "accept": [" "]}}', ":1: does not say which words are right; give"),
    ],
)
def test_a_file_without_questions_is_refused(tmp_path, content, line):
    path = tmp_path / "questions.jsonl"
    path.write_text(content)
    with pytest.raises(Error, match=re.escape(f"{path}") + ".*" + re.escape(line)):
        read_questions(path)


@pytest.mark.parametrize("name", ["score.py", "compare_with_peft.py"])
def test_scripts_refuse_in_one_line(bundle, tmp_path, name):
    arguments = {"--questions": QUESTIONS, "--adapter": tmp_path}
    for change, line in (
        ({"--questions": tmp_path / "none.jsonl"}, "none.jsonl: cannot be read"),
        ({"--adapter": tmp_path / "none"}, f"{tmp_path / 'none'}"),
    ):
        given = [part for pair in (arguments | change).items() for part in pair]
        run = script(name, bundle, *given)
        assert run.returncode == 2 and run.stdout == "", run
        assert run.stderr.startswith(f"{name}: ") and run.stderr.count("\n") == 1 and line in run.stderr, run.stderr


def test_brief_training_answers_new_wordings_and_peft_agrees(smollm2, tmp_path, show):
    questions = read_questions(QUESTIONS)[:2]
    lines = zip(DATA.read_text(encoding="utf-8").splitlines(), taught(), strict=True)
    few = [line for line, (_, answer) in lines if any(question.is_answered_by(answer) for question in questions)]
    data, asked, adapter = tmp_path / "few.jsonl", tmp_path / "questions.jsonl", tmp_path / "adapter"
    data.write_text("\n".join(few))
    asked.write_text("\n".join(QUESTIONS.read_text(encoding="utf-8").splitlines()[:2]))

    before = script("score.py", smollm2.bundle, "--questions", asked)
    assert before.stdout == "0 of 2 answers are right (0%)\n", before
    trained = mebp("train", smollm2.bundle, "--data", data, "--epochs", 3, "--lr", 2e-3, "--adapter-out", adapter)
    assert trained.returncode == 0, trained.stderr
    after = script("score.py", smollm2.bundle, "--questions", asked, "--adapter", adapter, "--show", 1)
    assert after.stdout.startswith(f"> {questions[0].text}\n"), after
    assert int(re.search(r"^(\d) of 2 answers are right", after.stdout, re.MULTILINE)[1]) == 2, after.stdout

    compared = script("compare_with_peft.py", smollm2.bundle, "--adapter", adapter, "--questions", asked)
    assert compared.returncode == 0, compared
    assert compared.stdout == "2 of 2 answers are the same in PEFT, token for token\n"
    show(f"brief training on {len(few)} samples: {after.stdout.splitlines()[-1]}; {compared.stdout.strip()}")
