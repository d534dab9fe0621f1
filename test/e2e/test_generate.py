# SPDX-License-Identifier: Apache-2.0
"""`mebp generate` and Session.generate, from outside."""

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

import mebp
from mebp.chat import Chat
from mebp.cli import main
from mebp.tokenizer import Tokenizer
from mebp.words import printable
from support.commands import MEBP, TIMEOUT

SAMPLED = ["--temperature", 1.5, "--top-k", 50, "--top-p", 0.95, "--seed", 5]


@pytest.fixture(scope="module")
def session(bundle) -> mebp.Session:
    return mebp.Session(bundle, return_gradients=False)


def generate(bundle: Path, *options: object, stdin: bytes = b"") -> subprocess.CompletedProcess:
    command = [*MEBP, "generate", str(bundle), *map(os.fsencode, map(str, options))]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT)


def answers(bundle: Path, *options: object, stdin: bytes = b"") -> list[dict]:
    run = generate(bundle, *options, "--json", stdin=stdin)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def refusal(bundle: Path, *options: object, stdin: bytes = b"") -> str:
    run = generate(bundle, *options, stdin=stdin)
    lines = run.stderr.decode().splitlines()
    assert run.returncode == 2 and len(lines) == 1 and not run.stdout, run
    return lines[0]


def test_greedy_tokens_are_the_likeliest_of_the_logits(session):
    ids = np.array([[72, 105, 33], [1, 2, 3]])
    out = session.generate(ids, max_new_tokens=6)
    assert out.shape == (2, 9) and out.dtype == np.int64 and np.array_equal(out[:, :3], ids)
    for length in range(3, 9):
        assert np.array_equal(out[:, length], session.logits(out[:, :length], first=length - 1)[:, 0].argmax(-1))


def test_the_callback_sees_each_step(session):
    seen: list[np.ndarray] = []
    out = session.generate([[72], [73]], max_new_tokens=5, temperature=1.0, callback=seen.append)
    assert np.array_equal(np.stack(seen, axis=1), out[:, 1:])


def test_a_finished_row_is_filled_up(session):
    free = session.generate([[72], [73]], max_new_tokens=8, temperature=1.0)
    end = int(free[0, 3])
    out = session.generate([[72], [73]], max_new_tokens=8, temperature=1.0, eos_token_id=end)
    first = [int(np.flatnonzero(row[1:] == end)[0]) + 1 if end in row[1:] else None for row in free]
    for row, unbound, start in zip(out, free, first, strict=True):
        assert np.array_equal(row[:start], unbound[: len(row)][:start])
        assert start is None or (row[start:] == end).all()


def test_it_ends_when_all_rows_have(session):
    free = session.generate([[72]], max_new_tokens=8, temperature=1.0)[0].tolist()
    out = session.generate([[72]], max_new_tokens=8, temperature=1.0, eos_token_id={free[4], 300})[0].tolist()
    assert out == free[: free.index(free[4], 1) + 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0; give a whole number of at least 1"),
        ({"max_new_tokens": 2.5}, "max_new_tokens is 2.5"),
        ({"max_new_tokens": 32}, "a prompt of 1 token and 32 new ones exceed the compiled length of 32"),
        ({"eos_token_id": 100000}, "eos_token_id 100000 is beyond the vocabulary"),
        ({"eos_token_id": [-1]}, "eos_token_id is -1"),
        ({"top_k": 2}, "top_k needs a temperature"),
    ],
)
def test_refused_arguments(session, options, words):
    with pytest.raises(mebp.Error, match=words):
        session.generate([[72]], **{"max_new_tokens": 4, **options})


def test_a_seed_decides_the_text_whatever_else_is_asked(bundle):
    one, two = answers(bundle, "--prompt", "A", "--prompt", "B", *SAMPLED, "--max-new-tokens", 9)
    assert answers(bundle, "--prompt", "B", *SAMPLED, "--max-new-tokens", 9) == [two]
    other = answers(bundle, "--prompt", "A", *SAMPLED[:-1], 6, "--max-new-tokens", 9)
    assert other[0]["answer"] != one["answer"]
    assert one["tokens"] == 9 and not one["stopped"]


def test_the_python_call_gives_the_same(bundle, session):
    tokenizer = Tokenizer(bundle)
    prompt = tokenizer.encode("The wick")
    ids = session.generate(
        [prompt], 9, tokenizer.stop_tokens, temperature=1.5, top_k=50, top_p=0.95, seed=5
    )  # fmt: skip
    (answer,) = answers(bundle, "--prompt", "The wick", *SAMPLED, "--max-new-tokens", 9)
    assert answer["answer"] == tokenizer.decode(ids[0, len(prompt) :].tolist()).strip()


def test_several_prompts_and_standard_input(bundle):
    run = generate(bundle, "--prompt", "-", "--prompt", "second", "--max-new-tokens", 4, stdin="été\n".encode())
    assert run.returncode == 0, run.stderr
    lines = run.stdout.decode().split("\n")
    assert lines[0] == "> été" and "> second" in lines
    single = generate(bundle, "--prompt", "second", "--max-new-tokens", 4).stdout.decode()
    assert run.stdout.decode().endswith(f"> second\n{single}")


def test_a_terminal_gets_the_same_text(bundle):
    options = ["--prompt", "The wick", *SAMPLED, "--max-new-tokens", 20]
    plain = generate(bundle, *options).stdout.decode()
    command = [*MEBP, "generate", str(bundle), *map(str, options)]
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(command, stdout=follower, stderr=subprocess.PIPE)
        os.close(follower)
        pieces = []
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not piece:
                break
            pieces.append(piece)
        assert process.wait(timeout=TIMEOUT) == 0, process.stderr.read()
    finally:
        os.close(leader)
    shown = b"".join(pieces).decode().replace("\r\n", "\n")
    assert shown == printable(plain) and "\\x" in shown  # what an untrained model writes would move the cursor


class Terminal(io.StringIO):
    """Notes what is there each time that it shall be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.shown.append(self.getvalue())


def test_a_terminal_gets_the_text_as_it_comes(bundle, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["generate", str(bundle), "--prompt", "The wick", *map(str, SAMPLED), "--max-new-tokens", "20"]) == 0
    assert len(set(terminal.shown)) > 3


def test_refused_prompts(bundle):
    assert "--prompt is empty" in refusal(bundle, "--prompt", "")
    assert "--prompt is empty" in refusal(bundle, "--prompt", "fine", "--prompt", "")
    assert "standard input is empty" in refusal(bundle, "--prompt", "-")
    assert "standard input is not UTF-8 at byte 1" in refusal(bundle, "--prompt", "-", stdin=b"a\xff")
    assert "--prompt is not UTF-8 at byte 2" in refusal(bundle, "--prompt", "ab\udcff")
    line = refusal(bundle, "--prompt", "long " * 40)
    assert '"long long long long long..." has 200 tokens' in line and "sequences of 32" in line
    assert "--prompt" in refusal(bundle)
    assert "max_new_tokens is 0" in refusal(bundle, "--prompt", "x", "--max-new-tokens", 0)
    assert "temperature is -1" in refusal(bundle, "--prompt", "x", "--temperature", -1)


CHAT = ["--chat", "--prompt", "Hi", "--max-new-tokens", 4]


def test_chat_asks_by_the_template(bundle, session):
    tokenizer = AutoTokenizer.from_pretrained(bundle / "tokenizer")
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, return_dict=False
    )
    new = session.generate([ids], max_new_tokens=4)[0, len(ids) :]
    (answer,) = answers(bundle, *CHAT)
    assert answer["prompt"] == "Hi" and answer["answer"] == tokenizer.decode(new, skip_special_tokens=True).strip()
    assert answers(bundle, "--chat", "--prompt", "-", "--max-new-tokens", 4, stdin=b" Hi\n") == [answer]
    (plain,) = answers(bundle, "--prompt", "Hi", "--max-new-tokens", 4)
    assert plain["answer"] != answer["answer"]


def test_a_system_turn_goes_first(bundle, tmp_path):
    chat = Chat(Tokenizer(bundle), "Be brief.")
    assert chat.prompt("Hi").startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>")
    line = refusal(bundle, *CHAT, "--system", "Be brief, but not as brief as that.")
    assert "tokens and the bundle is compiled for" in line  # so it was rendered


def test_refused_chats(bundle, tmp_path):
    assert "--system needs --chat" in refusal(bundle, "--prompt", "Hi", "--system", "Be brief.")
    assert "--prompt is empty" in refusal(bundle, "--chat", "--prompt", " \n")
    assert "--system is not UTF-8" in refusal(bundle, *CHAT, "--system", "ab\udcff")
    shutil.copytree(bundle, tmp_path / "plain.mebp")
    (tmp_path / "plain.mebp" / "tokenizer" / "chat_template.jinja").unlink()
    assert "no chat template" in refusal(tmp_path / "plain.mebp", *CHAT)


def test_more_tokens_than_fit_are_cut_and_told(bundle, capsys):
    assert main(["generate", str(bundle), "--prompt", "short", "--max-new-tokens", "1000", "--json"]) == 0
    found = capsys.readouterr()
    assert 1 <= json.loads(found.out)["tokens"] <= 27
    assert found.err == (
        "mebp: note: up to 27 new tokens, not 1,000: the prompt has 5, and the bundle is compiled for sequences of 32\n"
    )
