# SPDX-License-Identifier: Apache-2.0
"""mebp data FILE --model M: what is shown is what training takes, on a terminal, as lines and as a page; refusals."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from mebp.cli import data as command
from mebp.cli import main
from mebp.data import load_dataset
from mebp.data.counting import Counting
from mebp.data.sharing import Sharing
from mebp.data.showing.page import make_page
from mebp.data.showing.samples import COUNTS, CUT, SEEN, Samples
from mebp.data.sources import Source
from mebp.tokenizer import Tokenizer
from support.commands import refusal_in_process
from support.textmodel import CHATML, make_tokenizer


def turns(*said: str) -> list[dict]:
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(said)]


def call(*said: str) -> list[dict]:
    roles = ("system", "user", "assistant", "tool", "assistant")
    return [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]


CONVERSATIONS = [
    {"messages": turns("Who?", "Me.")},
    {"messages": turns("Who?", "<think>\nHm.\n</think>\n\nMe.", "Why?", "<think>\nOh.\n</think>\n\nSo.")},
    {"messages": turns("Who?", "<think>\n\n</think>\n\nMe.")},
    {"messages": call("Brief.", "Tide?", '<tool_call>{"name": "tide"}</tool_call>', "0.6", "It is 0.6.")},
    {"messages": [*turns("Who?"), {**turns("", "No.")[1], "weight": 0}, *turns("Who?", "Me 🙂.")]},
    *[{"messages": turns(f"What is {index}?", f"It is {index}." * index)} for index in range(1, 7)],
]
COMPLETIONS = [{"prompt": f"{index}+1=", "completion": f" {index + 1}" * (9 * index % 31 + 1)} for index in range(12)]
TEXTS = [{"text": f"The lamp {index} is lit. " * 4} for index in range(5)]
MODEL = "model"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current one, with a model's tokenizer, and data of each form."""
    monkeypatch.chdir(tmp_path)
    make_tokenizer(tmp_path / MODEL, CHATML)
    (tmp_path / MODEL / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    for name, samples in (("turns", CONVERSATIONS), ("pairs", COMPLETIONS), ("texts", TEXTS)):
        write(tmp_path / f"{name}.jsonl", *samples)
    return tmp_path


def write(path: Path, *samples: dict) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.mark.parametrize("length", [40, 96, 400])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize(
    ("name", "counting"),
    [
        ("turns.jsonl", Counting()),
        ("turns.jsonl", Counting("last")),
        ("turns.jsonl", Counting("turns", False, "learn")),
        ("turns.jsonl", Counting("all")),
        ("pairs.jsonl", Counting()),
        ("pairs.jsonl", Counting("all")),
        ("texts.jsonl", Counting()),
    ],
)
def test_it_is_what_training_takes(folder, name, counting, shares, length):
    tokenizer, source = Tokenizer.of_model(folder / MODEL), Source.of(folder / name, counting=counting)
    sharing = Sharing(3) if shares else None
    data = load_dataset(source, tokenizer, length, sharing)
    samples = Samples(source, tokenizer, length, sharing)
    shown = samples.first(1000)
    assert len(shown) == len(samples) and samples.data.digest == data.digest
    assert samples.shares_rows == (shares and name != "texts.jsonl")
    taken: dict[int, list] = {}
    for sample in shown:
        if sample.row is not None:
            taken.setdefault(sample.row, []).append(sample)
    assert sorted(taken) == list(range(1, len(data.rows) + 1))
    for number, row in enumerate(data.rows, start=1):
        parts = {tuple(each.ids[: len(each.labels)].tolist()): each.labels.tolist() for each in taken[number]}
        starts = [0, *(np.flatnonzero(np.diff(row.starts)) + 1)] if row.starts is not None else [0]
        for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
            assert parts[tuple(row.ids[start:end].tolist())] == row.labels[start:end].tolist()
        assert sum(each.counted for each in taken[number]) == row.counted
    for sample in shown:
        decode = tokenizer.backend.decode
        assert "".join(piece.text for piece in sample.pieces) == decode(sample.ids, skip_special_tokens=False)
        assert sum(piece.tokens for piece in sample.pieces) == len(sample.ids)
        assert sample.cut == max(0, len(sample.ids) - length)
        assert sum(piece.tokens for piece in sample.pieces if piece.kind == CUT) == sample.cut


def test_weights_are_shown(folder):
    answer = {"role": "assistant", "content": "Me.", "weight": 2}
    path = write(folder / "w.jsonl", {"messages": [*turns("Who?"), answer]})
    source = Source.of(path, counting=Counting(weighs=True))
    (sample,) = Samples(source, Tokenizer.of_model(folder / MODEL), 100, None).first(5)
    assert [(piece.kind, piece.weight, piece.text) for piece in sample.pieces] == [
        (SEEN, 1.0, "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"),
        (COUNTS, 2.0, "Me.<|im_end|>"),
        (SEEN, 1.0, "\n"),
    ]
    assert sample.weights.max() == 2.0


def test_a_character_is_not_torn(folder):
    """Where a row ends within one, it belongs to what is behind."""
    source = Source.of(write(folder / "p.jsonl", {"prompt": "a", "completion": "b🙂c"}))
    (sample,) = Samples(source, Tokenizer.of_model(folder / MODEL), 4, None).first(1)
    assert [(piece.kind, piece.text) for piece in sample.pieces] == [
        (SEEN, "a"), (COUNTS, "b"), (CUT, "🙂c<|endoftext|>"),
    ]  # fmt: skip


def shown(capsys, *arguments: object) -> str:
    assert main(["data", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_marks_where_there_is_no_terminal(folder, capsys):
    out = shown(capsys, write(folder / "one.jsonl", *CONVERSATIONS[:2]), "--model", MODEL, "--seq-len", 59)
    assert (
        out
        == f"""{folder}/one.jsonl, as model reads it
2 samples, 87 tokens in 2 rows of up to 59 (as asked for)
30 tokens count, 34%
41 tokens cut off
{folder}/one.jsonl: 1 of 2 samples were cut to 59 tokens
seen  {{+counts in the loss+}}  [-cut-]

sample 1: 28 tokens, 4 count, row 1
<|im_start|>user
Who?<|im_end|>
<|im_start|>assistant
{{+Me.<|im_end|>+}}


sample 2: 100 tokens, 26 count, 41 cut, row 2
<|im_start|>user
Who?<|im_end|>
<|im_start|>assistant
{{+<think>
Hm.
</think>

Me.<|im_end|>+}}
<|im_start|>user
Why[-?<|im_end|>
<|im_start|>assistant
<think>
Oh.
</think>

So.<|im_end|>
-]
"""
    )


def test_colours_on_a_terminal(folder, capsys, monkeypatch):
    """And no code of a stranger's text."""
    monkeypatch.setattr(command, "is_terminal", lambda stream: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = write(folder / "one.jsonl", {"messages": turns("\x1b[31mWho?", "Me.")})
    out = shown(capsys, path, "--model", MODEL)
    assert "\x1b[32;1mMe.<|im_end|>\x1b[0m" in out and "{+" not in out and "\\x1b[31mWho?" in out
    assert out.count("\x1b[") == 2 * 3  # the legend's two, and what counts
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in (out := shown(capsys, path, "--model", MODEL)) and "{+Me.<|im_end|>+}" in out


class Page(HTMLParser):
    """Its samples, each the texts by what is done with them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.samples: list[list[tuple[str, str]]] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        kind = dict(attrs).get("class")
        self.tags.add(tag)
        if tag == "pre":
            self.samples.append([])
        if tag in ("pre", "span"):
            self.open.append(kind)

    def handle_endtag(self, tag):
        if tag in ("pre", "span"):
            self.open.pop()

    def handle_data(self, data):
        if self.open[:1] == ["sample"] and len(self.open) == 2:
            self.samples[-1].append((self.open[-1], data))


def test_a_page(folder, capsys):
    html = folder / "page.html"
    out = shown(capsys, "turns.jsonl", "--model", MODEL, "--html", html, "--loss-on", "last", "--seq-len", 96)
    assert out.endswith(f"{html}: 11 samples; open it in a browser\n") and "<|im_start|>" not in out
    text, source = html.read_text(), Source.of(folder / "turns.jsonl", counting=Counting("last"))
    expected = Samples(source, Tokenizer.of_model(folder / MODEL), 96, None).first(99)
    page = Page(text)
    assert page.samples == [[(piece.kind, piece.text) for piece in sample.pieces] for sample in expected]
    assert {kind for sample in page.samples for kind, _ in sample} == {SEEN, COUNTS, CUT}
    assert not page.tags & {"script", "link", "img"} and not re.search(r"(?:src|href)=|https?:|@import|url\(", text)
    assert text.count("<h2>Sample ") == 11 and "What counts in turns.jsonl" in text
    shown(capsys, "turns.jsonl", "--model", MODEL, "--html", html, "--samples", 2)  # over its own
    assert len(Page(html.read_text()).samples) == 2
    assert "the first 2 are shown; --samples shows more" in html.read_text()


def test_no_text_is_markup(folder):
    path = write(folder / "one.jsonl", {"messages": turns("<script>alert(1)</script>", "</pre><b>&amp;\x1b[0m")})
    samples = Samples(Source.of(path), Tokenizer.of_model(folder / MODEL), 200, None).first(1)
    page = Page(make_page("<i>&", ["<u>"], samples))
    assert not page.tags & {"script", "b", "i", "u"} and len(page.samples) == 1
    assert "".join(text for _, text in page.samples[0]).count("</pre><b>&amp;\\x1b[0m") == 1


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ([], "rows of up to 128 (which holds all 11 samples, the longest of 1"),
        (["--packing", "--seq-len", 256], "rows of up to 256 (as asked for; samples share rows)"),
        (["--packing", "--seq-len", 256, "--seed", 5], "rows of up to 256 (as asked for; samples share rows)"),
        (["--no-packing", "--seq-len", 256], "in 11 rows of up to 256 (as asked for)"),
        (["--loss-on", "turns"], "13 samples"),
        (["--empty-thoughts", "learn"], "<|im_start|>assistant\n{+<think>\n\n</think>"),
        (["--samples", 1], "the first 1 are shown; --samples shows more"),
    ],
)
def test_options(folder, capsys, options, facts):
    assert facts in shown(capsys, "turns.jsonl", "--model", MODEL, *options)


def test_columns_and_a_folder(folder, capsys):
    (folder / "data").mkdir()
    write(folder / "data" / "train.jsonl", {"q": "Who?", "a": "Me."})
    write(folder / "data" / "valid.jsonl", {"q": "Why?", "a": "So."})
    out = shown(capsys, "data", "--model", MODEL, "--columns", "question=q,answer=a")
    assert "{+Me.<|im_end|>+}" in out and "So." not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["turns.jsonl"], "mebp data FILE needs --model MODEL, whose tokens are shown; see mebp data --help"),
        (["turns.jsonl", "more", "--model", MODEL], "'more' is one argument too many; see mebp data --help"),
        (["turns.jsonl", "--model", MODEL, "--samples", 0], "--samples is 0; give at least 1"),
        (["turns.jsonl", "--model", MODEL, "--seed", -1], "--seed is -1; give at least 0"),
        (["turns.jsonl", "--model", MODEL, "--seq-len", 1], "--seq-len is 1; give at least 2"),
        (["turns.jsonl", "--model", MODEL, "-o", "x"], "--output is of mebp data import; leave it out"),
        (["turns.jsonl", "--model", MODEL, "--as", "x"], "--as is of mebp data import; leave it out"),
        (["turns.jsonl", "--model", MODEL, "--overwrite"], "--overwrite is of mebp data import; leave it out"),
        (["turns.jsonl", "--model", MODEL, "--pause", 1], "--pause is of mebp data import; leave it out"),
        (["import", "turns.jsonl", "--model", MODEL], "--model is to show data; leave it out"),
        (["import", "turns.jsonl", "-o", "x", "--turn-weights"], "--turn-weights is to show data; leave it out"),
        (["import"], "mebp data import needs a file or folder of chats; see mebp data --help"),
        (["import", "turns.jsonl"], "mebp data import needs -o FILE, the new file; see mebp data --help"),
        (
            ["turns.jsonl", "--model", MODEL, "--html", "turns.jsonl"],
            "--html turns.jsonl: is also the data, which would be lost; choose another",
        ),
        (
            ["turns.jsonl", "--model", MODEL, "--html", "pairs.jsonl"],
            "--html pairs.jsonl: exists and is not a page of mebp; choose another",
        ),
        (
            ["texts.jsonl", "--model", MODEL, "--loss-on", "last"],
            "--loss-on last: texts.jsonl has no answers: it is text, all of which counts; leave --loss-on last out",
        ),
        (
            ["turns.jsonl", "--model", MODEL, "--packing", "--seq-len", 40],
            "turns.jsonl: sample 2 has 100 tokens, and a row 40; shorten it, compile with a longer --seq-len, or leave "
            "--packing out, which cuts it",
        ),
        (["turns.jsonl", "--model", "nobody.mebp"], "no bundle at nobody.mebp; make one with mebpc"),
        (
            ["turns.jsonl", "--model", "adapter"],
            "adapter: its bundle is not there; give the model or the bundle that it was trained on instead",
        ),
        (["none.jsonl", "--model", MODEL], "none.jsonl: cannot be read (No such file or directory); check the path"),
    ],
)
def test_what_cannot_be_is_refused(folder, capsys, arguments, words):
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text("{}")
    assert refusal_in_process(capsys, "data", *arguments) == f"mebp: {words}\n"


def test_it_needs_no_torch(folder):
    code = (
        "import sys; from mebp.cli import main; "
        f"assert main(['data', 'turns.jsonl', '--model', {MODEL!r}, '--html', 'page.html']) == 0; "
        "assert not {'torch', 'transformers', 'matplotlib', 'onnx'} & sys.modules.keys()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
