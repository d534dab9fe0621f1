# SPDX-License-Identifier: Apache-2.0
"""What a file of options may not decide: code that runs, what is sent away, and what is replaced."""

from pathlib import Path

import pytest

from mebp.cli.main import main, make_parsers
from mebp.errors import Error
from mebp.training.config import read_config
from mebp.training.request import request_kinds
from mebp.training.trust import MARKS, Mark


def read(tmp_path: Path, content: str, **how: object) -> dict[str, object]:
    (tmp_path / "run.yaml").write_text(content)
    return read_config(tmp_path / "run.yaml", request_kinds(), **how)


def refusal(tmp_path: Path, content: str, **how: object) -> str:
    with pytest.raises(Error) as caught:
        read(tmp_path, content, **how)
    return str(caught.value).removeprefix(f"{tmp_path}/run.yaml")


def test_every_option_is_marked():
    """One that is new needs a mark in mebp/training/trust.py: think of what a stranger's file could do with it."""
    assert MARKS.keys() == request_kinds().keys()
    assert all(isinstance(mark, Mark) for mark in MARKS.values())


def test_every_option_of_the_command_line_is_in_the_table():
    """Those beside it say what is read from where, or whom to trust, so no file has them."""
    of_the_command = {action.dest for action in make_parsers()["train"]._actions} - {"help", "help_all"}
    assert of_the_command - {"config", "allow_code"} == MARKS.keys()


# A value of each option that is more than a number, a name or a path that is read or newly written.
WATCHED = {
    "reward": "evil.py:f",
    "push_to_hub": "me/adapter",
    "report_to": "wandb",
    "connect": "evil.example:7420",
    "cert": "client.pem",
    "key": "client.key",
    "ca": "ca.pem",
    "plain_text": "true",
    "interface": "eth0",
    "overwrite": "true",
    "resume": "true",
}


def test_what_does_more_than_compute_is_marked():
    assert {name for name, mark in MARKS.items() if mark is not Mark.PLAIN} == WATCHED.keys()


@pytest.mark.parametrize("name", WATCHED)
def test_it_is_refused_by_name_unless_the_command_line_has_it_too(tmp_path, name):
    content = f"lr: 1\n{name}: {WATCHED[name]}\n"
    assert refusal(tmp_path, content).startswith(f":2: {name} ")
    assert read(tmp_path, content, given={name}) == {"lr": 1.0}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            "reward: score.py:f\n",
            "reward would run 'score.py:f'; add --allow-code to the command line if you trust it, or leave reward out",
        ),
        (
            "reward: [judge.mebp, 'os:system', 'sh -c \"echo $(id)\"']\n",
            "reward would run 'os:system' and 'sh -c \"echo $(id)\"'; add --allow-code to the command line if you "
            "trust it, or leave reward out",
        ),
        (
            # What looks like a bundle is one only if all of it does.
            'reward: "a\\nb.mebp"\n',
            "reward would run 'a\\nb.mebp'; add --allow-code to the command line if you trust it, or leave reward out",
        ),
        (
            f"reward: {'a' * 2000}\n",
            f"reward would run '{'a' * 999}... (1,002 characters more); add --allow-code to the command line if you "
            "trust it, or leave reward out",
        ),
        (
            "connect: 'evil.example:7420'\n",
            "connect is 'evil.example:7420', and a file does not decide what is sent to whom; give --connect on the "
            "command line, or leave connect out",
        ),
        (
            "report-to: wandb\n",
            "report_to is 'wandb', and a file does not decide what is sent to whom; give --report-to on the command "
            "line, or leave report_to out",
        ),
        (
            "overwrite: true\n",
            "overwrite lets the run replace files, and a file does not decide that; give --overwrite on the command "
            "line, or leave overwrite out",
        ),
        ("allow-code: true\n", "a file cannot allow itself to run code; give --allow-code on the command line"),
        ("reward: [1]\n", "reward is [1]; give a string or a path, or several"),
        ("reward: [null]\n", "reward is [None]; give a string or a path, or several"),
    ],
)
def test_the_line_shows_what_it_would_do(tmp_path, content, line):
    assert refusal(tmp_path, content) == f":1: {line}"


def test_what_does_nothing_is_allowed(tmp_path):
    content = "reward: judge.mebp:adapter\noverwrite: false\nplain-text: no\nreport_to:\n"
    assert read(tmp_path, content) == {"reward": ["judge.mebp:adapter"], "overwrite": False, "plain_text": False}
    assert read(tmp_path, "reward: []\n") == {"reward": []}


def test_code_is_allowed_by_the_command_line_alone(tmp_path):
    content = "reward: [score.py:f, ./score --fast]\n"
    assert read(tmp_path, content, allow_code=True) == {"reward": ["score.py:f", "./score --fast"]}
    assert "overwrite lets" in refusal(tmp_path, "overwrite: true\n", allow_code=True)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A folder with a file of options whose reward leaves `ran`, and what else a run needs to come to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text('{"prompt": "a"}\n')
    (tmp_path / "evil.py").write_text("open('ran', 'w')\ndef f(completions):\n    return [0.0] * len(completions)\n")
    return tmp_path


@pytest.mark.parametrize("reward", ["evil.py:f", "evil:f", "touch ran"])
def test_no_reward_of_a_file_runs(planted, capsys, reward):
    (planted / "run.yaml").write_text(f"bundle: no.mebp\ndata: data.jsonl\nobjective: grpo\nreward: {reward}\n")
    assert main(["train", "--config", "run.yaml"]) == 2
    assert capsys.readouterr().err.startswith(f"mebp: run.yaml:4: reward would run '{reward}'; add --allow-code")
    assert main(["train", "--config", "run.yaml", "--allow-code"]) == 2
    assert "no.mebp" in capsys.readouterr().err  # which is not there: the options are accepted
    assert not (planted / "ran").exists()


def test_what_the_command_line_says_itself_is_done(planted, capsys):
    (planted / "run.yaml").write_text("bundle: no.mebp\ndata: data.jsonl\nobjective: grpo\nreward: evil.py:f\n")
    assert main(["train", "--config", "run.yaml", "--reward", "other.mebp"]) == 2
    assert "no.mebp" in capsys.readouterr().err
