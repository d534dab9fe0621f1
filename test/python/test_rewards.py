# SPDX-License-Identifier: Apache-2.0
"""Rewards by functions and by commands, and all that may be wrong with them."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp import Error
from mebp.data.prompts import Prompt
from mebp.rewards import Sampled, StoppedError, load_rewards
from mebp.rewards.sampled import Progress
from mebp.tokenizer import Tokenizer
from support.textmodel import make_text_bundle

TURNS = [{"role": "user", "content": "2+2="}]


def batch(written="2+2=", **columns):
    """Two completions of each of two prompts."""
    prompts = [
        Prompt(
            f"data.jsonl:{line}",
            written,
            np.array([1, 2]),
            {name: values[line - 1] for name, values in columns.items()},
        )
        for line in (1, 2)
    ]
    texts = ["4", "four", "", "5"]
    return [
        Sampled(prompts[index // 2], text, np.array(list(text.encode()), np.int32), number=index % 2 + 1)
        for index, text in enumerate(texts)
    ]


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """Loads rewards from a module of this source."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)

    def load(source, *names):
        (tmp_path / "scores.py").write_text(source)
        return load_rewards([f"scores.py:{name}" for name in names or ("reward",)])

    return load


def command(source):
    """Of a program whose source this is, with `rows` at hand."""
    source = "import json, sys\nrows = [json.loads(line) for line in sys.stdin]\n" + source
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(source)}"


def score_error(rewards, samples):
    with pytest.raises(Error) as error:
        rewards.score(samples)
    return str(error.value)


def thinking():
    (first, *_) = batch(answer=["4", "5"])
    told = Sampled(first.prompt, "4", first.ids, apart=("Two.", "4"))
    return [Sampled(first.prompt, "<think>\nTwo and two.\n</think>\n\n4", first.ids), first, told]


def test_a_function_sees_thought_and_answer_apart(functions):
    rewards = functions(
        """
def reward(completion_thoughts, completion_answers, answer):
    assert completion_thoughts == ["Two and two.", None, "Two."]
    return [float(mine == true) for mine, true in zip(completion_answers, answer)]
"""
    )
    rewards.check_columns(["answer"])
    assert rewards.score(thinking()).rewards.tolist() == [[1.0], [1.0], [1.0]]


def test_an_answer_of_the_data_is_still_the_data_s(functions):
    rewards = functions("def reward(completions, answer):\n    return [0.0 for each in answer]")
    with pytest.raises(Error, match=r'reward reward: needs a column "answer", and the data has none; add it'):
        rewards.check_columns([])


def test_a_command_reads_thought_and_answer_apart():
    reward = load_rewards(
        [
            command("""
for row in rows:
    print(len(row["completion_thought"] or "") if row["completion_answer"] == row["answer"] else "null")
""")
        ]
    )
    assert reward.score(thinking()).rewards.tolist() == [[12.0], [0.0], [4.0]]


def test_a_function_is_called_as_trl_calls_it(functions):
    rewards = functions(
        """
def reward(prompts, completions, completion_ids, answer, **others):
    assert prompts == ["2+2="] * 4 and completion_ids[1] == [102, 111, 117, 114]
    assert type(completion_ids[1]) is list and type(completion_ids[1][0]) is int
    assert answer == [4, 4, 5, 5] and others["trainer_state"].global_step == 7
    others["log_metric"]("longest", 4)
    others["log_extra"]("extra", completions)
    return [None if not text else float(text == str(one)) for text, one in zip(completions, answer)]
"""
    )
    rewards.check_columns(["answer"])
    scores = rewards.score(batch(answer=[4, 5]), Progress(global_step=7))
    np.testing.assert_array_equal(scores.rewards, [[1.0], [0.0], [np.nan], [1.0]])
    assert scores.unscored == 1
    assert scores.metrics["rewards/reward/mean"] == pytest.approx(2 / 3) and scores.metrics["longest"] == 4.0


def test_a_function_gets_what_it_has_parameters_for(functions):
    rewards = functions("def reward(completions, weight=2):\n    return [weight * len(each) for each in completions]\n")
    rewards.check_columns(["answer"])
    np.testing.assert_array_equal(rewards.score(batch(answer=[4, 5])).rewards.T, [[2, 8, 0, 2]])


def test_completions_of_messages_are_messages(functions):
    rewards = functions(
        "def reward(prompts, completions):\n"
        "    assert prompts[0][0]['role'] == 'user' and completions[1][0]['role'] == 'assistant'\n"
        "    return [len(each[0]['content']) for each in completions]\n"
    )
    np.testing.assert_array_equal(rewards.score(batch(TURNS)).rewards.T, [[1, 4, 0, 1]])


def test_numbers_of_any_kind_and_functions_that_wait_will_do(functions):
    rewards = functions(
        "import numpy as np\nasync def reward(**given):\n    return np.array([1, 0, 1, 0], dtype=bool)\n"
    )
    np.testing.assert_array_equal(rewards.score(batch()).rewards.T, [[1, 0, 1, 0]])


def test_a_module_of_the_current_folder_is_found(functions, tmp_path, monkeypatch):
    (tmp_path / "reward_of_here.py").write_text("import helper_of_here\nreward = helper_of_here.reward\n")
    (tmp_path / "helper_of_here.py").write_text("def reward(completions):\n    return [1.0] * len(completions)\n")
    assert load_rewards(["reward_of_here:reward"]).score(batch()).rewards.sum() == 4
    for name in ("reward_of_here", "helper_of_here"):
        monkeypatch.delitem(sys.modules, name)


def test_what_lies_in_the_current_folder_shadows_nothing(functions, tmp_path, monkeypatch):
    """At no time: installed modules come first, and what else is only looked for is not found there."""
    for name in ("json", "colorsys", "onnx_ir", "may_be_installed"):  # of colorsys nothing is imported so far
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    source = "import json, colorsys\ndef reward(completions):\n    import later_of_here\n    return [1.0] * 4\n"
    (tmp_path / "reward_of_here.py").write_text(source)
    (tmp_path / "later_of_here.py").write_text("import json, colorsys\n")
    before = [*sys.path]
    rewards = load_rewards(["reward_of_here:reward", "reward_of_here.py:reward"])
    assert sys.path == before and importlib.util.find_spec("may_be_installed") is None
    assert rewards.score(batch()).rewards.sum() == 8
    assert sys.path == before and importlib.util.find_spec("may_be_installed") is None
    assert not (tmp_path / "ran").exists()
    for name in ("reward_of_here", "later_of_here"):
        monkeypatch.delitem(sys.modules, name)


def test_a_reward_that_raises_leaves_the_path_as_it_was(functions, tmp_path):
    before = [*sys.path]
    rewards = functions("def reward(completions):\n    raise ValueError('no')\n")
    score_error(rewards, batch())
    (tmp_path / "broken.py").write_text("import sys\nsys.path.insert(0, 'of its own')\nraise ValueError\n")
    with pytest.raises(Error):
        load_rewards(["broken.py:reward"])
    assert sys.path == ["of its own", *before]


def test_several_rewards_are_side_by_side(functions):
    rewards = functions(
        "def one(completions):\n    return [1.0] * 4\ndef two(completions):\n    return [2.0] * 4\n",
        "one",
        "two",
        "one",
    )
    scores = rewards.score(batch())
    np.testing.assert_array_equal(scores.rewards, [[1.0, 2.0, 1.0]] * 4)
    assert rewards.names == ["one_1", "two", "one_2"] and scores.metrics["rewards/one_2/std"] == 0.0


def test_a_command_reads_and_writes_lines(tmp_path):
    source = (
        "assert rows[1] == {'prompt': '2+2=', 'completion': 'four', 'completion_ids': [102, 111, 117, 114],"
        " 'completion_thought': None, 'completion_answer': 'four', 'answer': 4}\n"
        "for row in rows:\n"
        "    length = len(row['completion'])\n"
        "    print(json.dumps({'reward': length, 'length': length, 'note': 'a word'}) if length else 'null')\n"
    )
    scores = load_rewards([command(source)]).score(batch(answer=[4, 5]))
    np.testing.assert_array_equal(scores.rewards.T, [[1, 4, np.nan, 1]])
    assert scores.metrics["length"] == 2.0 and "note" not in scores.metrics


def test_a_command_that_reads_slowly_does_not_hang():
    """Both directions hold more than a pipe does."""
    samples = [Sampled(one.prompt, "x" * 200_000, one.ids) for one in batch()]
    source = "for row in rows:\n    print(json.dumps({'reward': 1, 'said': row['completion']}))\n"
    assert load_rewards([command(source)]).score(samples).rewards.sum() == 4


FAULTY = [
    ("raise ValueError('no such word')", "raises ValueError for data.jsonl:1, completion 1 (no such word)"),
    (
        "if '' in completions: raise KeyError('x')\n    return [0.0] * len(completions)",
        "raises KeyError for data.jsonl:2, completion 1 ('x')",
    ),
    (
        "assert len(completions) == 1\n    return [0.0]",
        "raises AssertionError for the 4 completions from data.jsonl:1 on, though for none alone (AssertionError)",
    ),
    ("return [1.0] * 3", "gives 3 for 4 completions, from data.jsonl:1 on; give one each, or None"),
    ("return 1.0", "gives 1.0; give a list with a number for each"),
    (
        "return [1.0, float('nan'), 1.0, 1.0]",
        "gives nan for data.jsonl:1, completion 2; give a finite number, or None for none",
    ),
    (
        "return [1.0, 1.0, float('inf'), 1.0]",
        "gives inf for data.jsonl:2, completion 1; give a finite number, or None for none",
    ),
    (
        "return [1.0, 10**400, 1.0, 1.0]",
        "gives inf for data.jsonl:1, completion 2; give a finite number, or None for none",
    ),
    (
        "return [1.0, 10**5000, 1.0, 1.0]",
        "gives inf for data.jsonl:1, completion 2; give a finite number, or None for none",
    ),
    ("return [1.0, -1e31, 1.0, 1.0]", "gives -1e+31 for data.jsonl:1, completion 2; give one of at most 1e+30"),
    (
        "return [1.0, [10**5000], 1.0, 1.0]",
        "gives a list that cannot be written for data.jsonl:1, completion 2; give a number or None",
    ),
    ("return 10**5000", "gives a int that cannot be written; give a list with a number for each"),
    ("return [1.0, 1.0, 1.0, 'good']", "gives 'good' for data.jsonl:2, completion 2; give a number or None"),
    ("return [1.0, [1.0, 2.0], 1.0, 1.0]", "gives [1.0, 2.0] for data.jsonl:1, completion 2; give a number or None"),
]


@pytest.mark.parametrize(("body", "line"), FAULTY)
def test_what_is_no_reward_is_refused(functions, body, line):
    rewards = functions(f"def reward(completions, **others):\n    {body}\n")
    assert score_error(rewards, batch()) == f"reward reward: {line}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("sys.exit('no model')", "ends with status 1 (no model); try it by itself"),
        ("sys.exit(3)", "ends with status 3 (without a word); try it by itself"),
        ("print(1.0)", "gives 1 for 4 completions, from data.jsonl:1 on; give one each, or None"),
        ("[print(1.0) for _ in range(5)]", "gives 5 for 4 completions, from data.jsonl:1 on; give one each, or None"),
        ("print(1.0)\nprint('good')", "writes 'good' for data.jsonl:1, completion 2, which is not JSON"),
        ("print('{\"score\": 1}')", 'writes no "reward" for data.jsonl:1, completion 1; write a number, or'),
        ("[print('NaN') for _ in range(4)]", "gives nan for data.jsonl:1, completion 1; give a finite number"),
        ("[print('1e400') for _ in range(4)]", "gives inf for data.jsonl:1, completion 1; give a finite number"),
        ("[print('9' * 400) for _ in range(4)]", "gives inf for data.jsonl:1, completion 1; give a finite number"),
        ("[print('9' * 5000) for _ in range(4)]", "writes '99999"),
        ("[print('[' * 5000) for _ in range(4)]", "writes '[[[[["),
        ("[print('{\"reward\": 1e400}') for _ in range(4)]", "gives inf for data.jsonl:1, completion 1; give a finite"),
        ("[print('\"a\"') for _ in range(4)]", "gives 'a' for data.jsonl:1, completion 1; give a number or None"),
    ],
)
def test_what_a_command_may_not_write_is_refused(source, line):
    written = command(source)
    assert score_error(load_rewards([written]), batch()).startswith(" ".join(f"reward {written}: {line}".split()))


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("no_such_module:reward", "cannot be loaded (No module named 'no_such_module'); check module and path"),
        ("no_such.py:reward", "cannot be loaded (no such file); check module and path"),
        ("broken.py:reward", "cannot be loaded (invalid syntax (broken.py, line 1)); check module and path"),
        ("json:no_such", "no_such is not there; name a function of json"),
        ("math:pi", "pi is no function; name a function of math"),
        ("no-such-command --fast", "is neither MODULE:FUNCTION nor a command that can be run; check it"),
        ("", "is neither MODULE:FUNCTION nor a command that can be run; check it"),
        ("echo 'a", "cannot be read (No closing quotation); write it as in a shell"),
    ],
)
def test_what_cannot_be_loaded_is_refused(functions, written, line):
    Path("broken.py").write_text("def\n")
    with pytest.raises(Error) as error:
        load_rewards([written])
    assert str(error.value) == " ".join(f"reward {written}: {line}".split())


def test_a_measure_that_no_float_holds_is_left_out():
    source = 'for row in rows: print(\'{"reward": 1, "size": \' + \'9\' * 400 + \', "depth": 1e999, "kept": 2}\')'
    assert load_rewards([command(source)]).score(batch()).metrics.keys() & {"size", "depth", "kept"} == {"kept"}


def test_a_command_is_words_and_no_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.quote("import sys; [print(len(sys.argv)) for _ in sys.stdin]")
    written = (
        f"{shlex.quote(sys.executable)} -c {words} ; touch ran && touch ran | touch ran > ran $(touch ran) `touch ran`"
    )
    assert load_rewards([written]).score(batch()).rewards.sum() == 4 * 16
    assert not (tmp_path / "ran").exists()


def test_a_command_has_a_time_and_the_run_may_end_it():
    slow = command("import time; time.sleep(1000)")
    assert score_error(load_rewards([slow], timeout=0.2), batch()).endswith(
        "has not answered after 0.2 s; give it more with --reward-timeout, or 0 for no limit"
    )
    with pytest.raises(StoppedError):
        load_rewards([slow], timeout=0, stop=lambda: True).score(batch())


def test_a_reward_is_needed():
    with pytest.raises(Error, match="completions need a reward; give --reward MODULE:FUNCTION, or a command"):
        load_rewards([])


@pytest.mark.parametrize(("columns", "there"), [([], "has none"), (["level", "question"], "has level, question")])
def test_a_column_that_is_missing_is_said_before_anything_runs(functions, columns, there):
    rewards = functions("def reward(completions, answer):\n    return answer\n")
    with pytest.raises(Error) as error:
        rewards.check_columns(columns)
    assert str(error.value) == (
        f'reward reward: needs a column "answer", and the data {there}; add it, or give the parameter a default'
    )


def test_lines_for_a_command_are_json(tmp_path):
    seen = tmp_path / "seen.jsonl"
    source = (
        f"open({str(seen)!r}, 'w').write(json.dumps(rows))\n"
        "for row in rows:\n"
        "    print(json.dumps({'reward': 1, 'said': row['prompt'][0]['content']}, ensure_ascii=False))\n"
    )
    load_rewards([command(source)]).score(batch([{"role": "user", "content": "Wer?\n\u2028ü"}]))
    assert json.loads(seen.read_text())[0]["prompt"] == [{"role": "user", "content": "Wer?\n\u2028ü"}]


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return make_text_bundle(tmp_path_factory.mktemp("judge"))


def written_by_another(bundle, texts=("a b", "b")):
    """Completions whose prompt has the judge's tokens, or others."""
    ids = np.array(Tokenizer(bundle).encode("a b a"), np.int32)
    prompt = Prompt("data.jsonl:1", "a b a", ids, {})
    return [Sampled(prompt, text, np.array([5, 3], np.int32), number=number + 1) for number, text in enumerate(texts)]


def test_a_bundle_judges_by_log_probabilities(judge):
    samples = written_by_another(judge)
    rewards = load_rewards([str(judge)])
    session = mebp.Session(judge, forward_only=True)
    ids = np.array([[*samples[0].prompt.ids, 5, 3]])
    expected = session.logprobs(ids)[0, -2:].mean()
    assert rewards.names == [judge.stem]
    assert rewards.score(samples).rewards[:, 0].tolist() == [pytest.approx(expected, rel=1e-6)] * 2


def test_a_bundle_reads_text_of_other_tokens_by_its_own_tokenizer(judge):
    first, second = written_by_another(judge)
    other = Prompt("data.jsonl:1", "a b a", np.array([0, 0], np.int32), {})
    tokenizer = Tokenizer(judge)
    own = [*tokenizer.encode("a b a"), *tokenizer.encode(first.text)]
    scored = load_rewards([str(judge)]).score([Sampled(other, first.text, first.ids)]).rewards[0, 0]
    session = mebp.Session(judge, forward_only=True)
    ids = np.array([[*own, tokenizer.end_of_sequence]])
    assert scored == pytest.approx(session.logprobs(ids)[0, len(tokenizer.encode("a b a")) - 1 :].mean(), rel=1e-6)
    assert second.text != first.text


def test_a_bundle_judges_by_its_value_head(judge, tmp_path):
    bundle, adapter = tmp_path / "valued.mebp", tmp_path / "adapter"
    mebp.compile(judge.parent / "model.onnx", bundle, value_head=True, seq_len=8)
    session = mebp.Session(bundle)
    trained = session.trainables()
    head = next(key for key in trained if key.endswith("value_head.weight"))
    session.set_trainables({head: np.linspace(-1, 1, trained[head].size).reshape(trained[head].shape)})
    session.save_adapter(adapter)
    samples = written_by_another(judge)
    ids = np.array([[*samples[0].prompt.ids, 5, 3, 0]])
    expected = session.scores(ids).values[0, -1]
    scored = load_rewards([f"{bundle}:{adapter}"]).score(samples).rewards[:, 0]
    assert expected != 0 and scored.tolist() == [pytest.approx(expected, rel=1e-6)] * 2
    other = tmp_path / "other"
    mebp.Session(bundle, accumulate=True, value_adapter=True).save_adapter(other)
    with pytest.raises(Error, match=f"^reward valued: {other}: has its value head on an adapter of its own, which"):
        load_rewards([f"{bundle}:{other}"])
    long = Sampled(samples[0].prompt, "", np.array([1] * 5, np.int32))
    assert score_error(load_rewards([str(bundle)]), [long]) == (
        "reward valued: data.jsonl:1, completion 1 has 10 tokens with its prompt, and the bundle takes 7; "
        "compile it with a longer --seq-len"
    )


def test_a_bundle_that_is_no_judge_is_refused(judge, tmp_path):
    with pytest.raises(Error, match=r"^reward none: .*none\.mebp"):
        load_rewards([str(tmp_path / "none.mebp")])
    with pytest.raises(Error, match="^reward "):
        load_rewards([f"{judge}:{tmp_path / 'no adapter'}"])
    (beyond,) = written_by_another(judge, ["a"])
    beyond = Sampled(beyond.prompt, "a", np.array([10**6], np.int32))
    assert "beyond the model's vocabulary" in score_error(load_rewards([str(judge)]), [beyond])
