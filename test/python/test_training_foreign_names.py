# SPDX-License-Identifier: Apache-2.0
"""What other trainers call their options and commands, and what is suggested for each."""

import pytest

from mebp.cli.main import make_parsers
from mebp.errors import Error
from mebp.training.foreign_names import COMMANDS, INSTEAD, SAME, option_hint, options_in
from mebp.training.options import find_name
from mebp.training.request import request_kinds
from support.commands import refusal_in_process

OPTIONS = {name: parser.long_options() for name, parser in make_parsers().items()}


def dashed(name):
    return f"--{name}"


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        ("train --learning-rate 1", "did you mean --lr?"),
        ("train --learning_rate=1", "did you mean --lr?"),
        ("train m --output-dir a", "did you mean --adapter-out?"),
        ("train --lora_r 8", "did you mean --lora-rank?"),
        ("train --per_device_train_batch_size 4", "did you mean --batch?"),
        ("train --max_seq_length 4", "did you mean --seq-len?"),
        ("train --lora_alpha 4", "did you mean --lora-alpha?"),
        ("train -r 4", "did you mean --lora-rank?"),
        ("train --use_rslora", "did you mean --rslora?"),
        ("train --hub_model_id me/adapter", "did you mean --push-to-hub?"),
        ("train --hub_token t", "the token of hf auth login is taken, or HF_TOKEN"),
        ("train --iters 4", "did you mean --steps?"),
        ("train --fp16", "activations are bf16, or f32 with --precision f32"),
        ("train --lora_dropout 0.1", "did you mean --lora-dropout?"),
        ("train --dropout 0.1", "did you mean --lora-dropout?"),
        (
            "train --disable-dropout",
            "dropout is what --lora-dropout says, and none where probabilities are compared",
        ),
        ("train --train_on_inputs", "--loss-on all learns prompts, too"),
        (
            "train --mask_history",
            "--loss-on last learns the last answer alone, and --loss-on turns each as it is asked for",
        ),
        (
            "train --assistant-only-loss",
            "completions and the assistant's turns are learned, unless --loss-on says otherwise",
        ),
        (
            "train --loss_scale last_round",
            "--loss-on and --empty-thoughts say what counts, and --turn-weights multiplies",
        ),
        ("train --num-layers 8", "did you mean --lora-layers?"),
        ("train --adaptor-out a", "did you mean --adapter-out?"),
        ("generate m --max_tokens 9", "did you mean --max-new-tokens?"),
        ("generate --model m", "the model comes first, without a name before it"),
        ("merge m --adapter-path a --save-path b", "did you mean --adapter?"),
        ("merge m --adapter a --save-path b", "did you mean --output?"),
        ("serve m --host a", "did you mean --listen?"),
        ("eval m --data a --learning-rate 1", "mebp train has --lr for it"),
    ],
)
def test_an_option_goes_by_its_meaning(capsys, given, suggested):
    command, *words = given.split()
    name = next(word for word in words if OPTIONS[command].count(word[2:]) == 0 and word.startswith("-")).split("=")[0]
    line = f"mebp: '{name}' is not an option of this command; {suggested}; see mebp {command} --help\n"
    assert refusal_in_process(capsys, command, *words) == line


def test_one_that_nobody_knows_gets_no_guess(capsys):
    line = "mebp: '--xyzzyx' is not an option of this command; see mebp train --help\n"
    assert refusal_in_process(capsys, "train", "--xyzzyx") == line


def test_iterations_are_steps_where_the_objective_has_no_rollouts(capsys, tmp_path):
    line = "mebp: --num-iterations is an option of --objective grpo, and this is sft; did you mean --steps?\n"
    data = tmp_path / "data.txt"
    data.write_text("text")
    assert refusal_in_process(capsys, "train", "m", "--data", str(data), "--num-iterations", "100") == line


@pytest.mark.parametrize(
    ("written", "suggested"),
    [
        ("finetune", "mebp train"),
        ("tune", "mebp train"),
        ("fuse", "mebp merge"),
        ("dpo", "mebp train --objective dpo"),
        ("convert", "mebp adapter convert"),
        ("quantize", "mebpc"),
        ("trian", "mebp train"),
        ("evl", "mebp eval"),
    ],
)
def test_a_command_goes_by_its_meaning(capsys, written, suggested):
    line = f"mebp: '{written}' is not a command; did you mean {suggested}?; see mebp --help\n"
    assert refusal_in_process(capsys, written, "--lr", "1") == line


def test_a_command_that_nobody_knows(capsys):
    assert refusal_in_process(capsys, "xyzzyx") == "mebp: 'xyzzyx' is not a command; see mebp --help\n"


@pytest.mark.parametrize(
    ("written", "suggested"),
    [
        ("learning_rate", "did you mean lr?"),
        ("per_device_train_batch_size", "did you mean batch?"),
        ("setps", "did you mean steps?"),
        ("use_dora", "there is no DoRA here; --adapter-kind has the kinds of adapters"),
    ],
)
def test_an_argument_of_python_and_a_key_of_a_file_go_by_it_too(written, suggested):
    with pytest.raises(Error) as refused:
        find_name(written, request_kinds())
    assert str(refused.value) == f"unknown option '{written}'; {suggested}"


@pytest.mark.parametrize("command", OPTIONS)
def test_every_suggestion_is_an_option_of_the_command(command):
    for written in {**SAME, **INSTEAD}:
        for option in options_in(option_hint(written, OPTIONS[command], dashed) or ""):
            assert option in OPTIONS[command], written


def test_every_option_of_the_table_is_there():
    there = {option for options in OPTIONS.values() for option in options}
    assert {option for options in SAME.values() for option in options} <= there
    for sentence in INSTEAD.values():
        assert options_in(sentence) <= set(OPTIONS["train"]), sentence


def test_every_command_of_the_table_is_there():
    for suggested in COMMANDS.values():
        tool, *rest = suggested.split()
        assert tool == "mebpc" or rest[0] in (*OPTIONS, "--help", "--version"), suggested
        if "--objective" in rest:
            assert "objective" in OPTIONS[rest[0]]


def test_no_name_of_the_table_is_a_command():
    assert not COMMANDS.keys() & OPTIONS.keys()
