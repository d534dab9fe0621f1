# SPDX-License-Identifier: Apache-2.0
"""`mebp chat`, and `mebp generate` by keys and values, from outside."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mebp import Session
from mebp.inspect import inspect
from mebp.tools import find_tool
from support.commands import MEBP, TIMEOUT, mebp, refusal
from support.textmodel import make_text_bundle

POSITIONS = 500


@pytest.fixture(scope="module")
def talker(tmp_path_factory) -> Path:
    return make_text_bundle(tmp_path_factory.mktemp("talker"), generate_len=POSITIONS, batch=2)


def chat(bundle: Path, said: str, *options: object) -> subprocess.CompletedProcess:
    command = [*MEBP, "chat", str(bundle), *map(str, options)]
    return subprocess.run(command, input=said, capture_output=True, text=True, timeout=TIMEOUT)


def answers(bundle: Path, *options: object) -> list[dict]:
    run = mebp("generate", bundle, *options, "--json")
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_each_turn_is_answered_and_the_first_as_generate_does(talker):
    run = chat(talker, "Hello\n\nAnd now?\n", "--max-new-tokens", 20)
    assert run.returncode == 0 and not run.stderr, run
    [alone] = answers(talker, "--prompt", "Hello", "--chat", "--max-new-tokens", 20)
    assert run.stdout.startswith(alone["answer"]) and alone["tokens"] == 20
    [unasked] = answers(talker, "--prompt", "And now?", "--chat", "--max-new-tokens", 20)
    assert run.stdout != f"{alone['answer']}\n{unasked['answer']}\n"  # the second knows of the first


def test_the_first_turns_go_where_there_is_no_room(talker):
    run = chat(talker, "A question\n" * 8, "--max-new-tokens", 120)
    assert run.returncode == 0
    notes = run.stderr.splitlines()
    assert notes and set(notes) == {"mebp: note: the conversation is too long: its first turn was left out"}
    assert "the message has" in refusal_of(chat(talker, "long " * 200 + "\n"))


def refusal_of(run: subprocess.CompletedProcess) -> str:
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1, run
    return run.stderr


def test_ctrl_c_ends_the_turn_and_not_the_conversation(talker):
    environment = os.environ | {"MEBP_KERNELS": "reference"}  # so slow that it can be interrupted
    process = subprocess.Popen(
        [*MEBP, "chat", str(talker)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        process.stdin.write(b"Hello\n")
        process.stdin.flush()
        os.read(process.stdout.fileno(), 1)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        first = process.stdout.readline()
        assert time.monotonic() - begun < TIMEOUT / 10 and len(first) < 400
        process.stdin.write(b"Again\n")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        process.stdout.readline()
        time.sleep(0.2)  # it waits for the next turn
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 128 + signal.SIGINT
        assert process.stderr.read() == b"mebp: interrupted\n"
    finally:
        process.kill()
        process.wait()


def test_a_stop_string_ends_the_answer_wherever_tokens_end(talker):
    [whole] = answers(talker, "--prompt", "The lamp")
    text = whole["answer"]
    stop = text[len(text) // 2 : len(text) // 2 + 3]  # a token is a byte
    [cut] = answers(talker, "--prompt", "The lamp", "--stop", "never said", "--stop", stop)
    assert cut["answer"] == text[: text.index(stop)].strip() and cut["stopped"] and cut["tokens"] < whole["tokens"]
    [unstopped] = answers(talker, "--prompt", "The lamp", "--stop", "never said")
    assert unstopped == whole


def test_samples(talker):
    options = ["--prompt", "The", "--temperature", 1.5, "--max-new-tokens", 12, "--min-p", 0.01]
    three = answers(talker, *options, "--samples", 3)
    assert len({answer["answer"] for answer in three}) == 3
    assert three == answers(talker, *options, "--samples", 3)
    [one] = answers(talker, *options)
    assert one["tokens"] == 12


def test_a_bundle_says_what_generating_needs(talker):
    description = inspect(talker)
    plan = description["plan"]
    assert description["model"]["positions"] == POSITIONS
    parts = {part["name"]: part["bytes"] for part in plan["generation"]}
    assert plan["generation_peak_bytes"] == plan["process_bytes"] + sum(parts.values())
    # Keys and values of two layers in f32, two rows of 500 positions, two heads of 24 numbers.
    assert parts["state"] == 2 * 2 * 2 * POSITIONS * 48 * 4


def test_refusals(talker, bundle):
    assert "was compiled without generation; compile it with --generate-len N" in refusal("chat", bundle)
    for options, words in (
        (["--temperature", -1], "temperature is -1"),
        (["--temperature", "nan"], "temperature is nan"),
        (["--top-p", 0, "--temperature", 1], "top_p is 0"),
        (["--top-p", 2, "--temperature", 1], "top_p is 2"),
        (["--min-p", 1.5, "--temperature", 1], "min_p is 1.5"),
        (["--repetition-penalty", 0], "repetition_penalty is 0"),
        (["--stop", ""], "a stop string is empty"),
    ):
        assert words in refusal("chat", talker, *options)
        assert words in refusal("generate", talker, "--prompt", "x", *options)
    assert "--max-new-tokens 0" in refusal("chat", talker, "--max-new-tokens", 0)
    assert "--samples 0" in refusal("generate", talker, "--prompt", "x", "--samples", 0)
    assert "is empty; give some text" in refusal("generate", talker, "--prompt", "")
    long = refusal("generate", talker, "--prompt", "x" * POSITIONS)
    assert "has 500 tokens and the bundle is compiled for sequences of 500" in long and "--generate-len" in long


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((0,), "--generate-len 0: a prompt and its answer have at least 2 tokens"),
        ((1,), "--generate-len 1: a prompt and its answer have at least 2 tokens"),
        ((513,), "supports; give at most 512"),
        ((500, "--memory-budget", "2.55MB", "--threads", 2), "generating up to 500 tokens needs"),
    ],
)
def test_lengths_that_mebpc_refuses(talker, options, words):
    command = [find_tool("mebpc"), str(talker.parent / "model.onnx"), "--plan-only", "--rates", "none"]
    run = subprocess.run([*command, "--generate-len", *map(str, options)], capture_output=True, text=True)
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1 and words in run.stderr, run


def test_training_pays_nothing_for_generation(talker, bundle):
    """The same model, compiled with and without it."""
    with_it, without = inspect(talker)["plan"], inspect(bundle)["plan"]
    assert with_it["buffers"] == without["buffers"] and with_it["peak_bytes"] == without["peak_bytes"]
    assert Session(talker).plan["session_bytes"] == Session(bundle).plan["session_bytes"]
