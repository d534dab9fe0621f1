# SPDX-License-Identifier: Apache-2.0
"""mebp --help and mebp train --help: a screen each. No command is missing on the first, and no option in --help-all."""

import re

import pytest

from mebp.cli.main import main, make_parsers
from mebp.cli.train import FIRST


def test_it_fits_a_screen_and_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    named = re.findall(r"\b[a-z]+\b", "\n".join(line[2:] for line in lines if line.startswith("  ")))
    assert make_parsers().keys() <= set(named)


def test_what_people_need_first_comes_first(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("to begin with:") + 1
    assert [line.split()[0] for line in lines[first : first + 5]] == ["train", "eval", "chat", "generate", "merge"]


def help_of(capsys, monkeypatch, option):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        main(["train", option])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_training_on_text_fits_a_screen(capsys, monkeypatch):
    text = help_of(capsys, monkeypatch, "--help")
    lines = text.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 100
    shown = set(re.findall(r"^  --([a-z-]+)", text, re.MULTILINE)) | {"help"}
    assert shown == set(FIRST) and {"data", "epochs", "lr", "lora-rank", "adapter-out", "resume"} <= shown
    assert "--help-all" in lines[-2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "x", "--schedule", "poly"], "--schedule is 'poly'; choose constant, linear or cosine"),
        (["train", "x", "--steps", "ten"], "--steps is 'ten'; give a whole number"),
        (["train", "x", "--lr", "1,5"], "--lr is '1,5'; give a number"),
        (["train", "x", "--data"], "--data has no value; give one"),
        (["export", "x", "-o"], "--output has no value; give one"),
        (["adapter", "adapter2"], "action is 'adapter2'; choose convert"),
    ],
)
def test_a_value_is_refused_in_plain_words(capsys, arguments, words):
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"mebp: {words}; see mebp {arguments[0]} --help\n"


def test_the_rest_is_there_by_objective(capsys, monkeypatch):
    text = help_of(capsys, monkeypatch, "--help-all")
    usage, *groups = re.split(r"\n\n(?=[^ ][^\n]*:\n)", text)
    told = {name for group in groups for name in re.findall(r"^  (?:-\w, )?--([a-z-]+)", group, re.MULTILINE)}
    options = make_parsers()["train"].long_options()
    assert told == {option for option in options if option[:3] != "no-"} and usage.startswith("usage: mebp train")
    of = {group.split(":")[0]: group for group in groups}
    for objective, option in {"dpo": "--ld-alpha", "grpo": "--delta", "ppo": "--gamma"}.items():
        assert option in of.pop(f"of --objective {objective}")
        assert not any(f"  {option} " in group for group in of.values())
    assert "--beta" in of["of several objectives"]
