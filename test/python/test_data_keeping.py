# SPDX-License-Identifier: Apache-2.0
"""Tokens of large files: made once, mapped, and the same as of small ones."""

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mebp.data import Dataset, load_dataset
from mebp.data.keeping import were_read
from mebp.data.loading import check_samples
from mebp.data.sharing import Sharing
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from mebp.waiting import told_by
from support.textmodel import make_tokenizer

LENGTH = 48
TEXTS = [f"The lamp {index} is lit.\nIt burns, and \u00e9 is a letter.  " * (index % 7 + 1) for index in range(60)]
TURNS = [
    [{"role": "user", "content": text[:12]}, {"role": "assistant", "content": text[-40:]}] * (1 + index % 2)
    for index, text in enumerate(TEXTS)
]
SAMPLES = {
    "text": [{"text": text} for text in TEXTS],
    "completion": [{"prompt": text[:9], "completion": text[9 : 9 + 3 * index]} for index, text in enumerate(TEXTS, 1)],
    "messages": [{"messages": turns} for turns in TURNS],
}


@pytest.fixture
def tokenizer(tmp_path) -> Tokenizer:
    make_tokenizer(tmp_path / "tokenizer", merges=[("\u0120", "l"), ("t", "h"), ("i", "s")])
    return Tokenizer(tmp_path)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Iterator[Path]:
    """Whatever its size, a file's tokens are kept."""
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.data.keeping._KEPT", 0)
    return tmp_path / "cache"


def write(path: Path, kind: str) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in SAMPLES[kind]))
    return path


def check_same(one: Dataset, other: Dataset) -> None:
    assert len(one.rows) == len(other.rows) and one.notes == other.notes and one.samples == other.samples
    for first, second in zip(one.rows, other.rows, strict=True):
        assert first.ids.tolist() == second.ids.tolist() and first.labels.tolist() == second.labels.tolist()
        assert (first.starts is None) == (second.starts is None)
        assert first.starts is None or first.starts.tolist() == second.starts.tolist()
    assert (one.digest, one.tokens, one.counted) == (other.digest, other.tokens, other.counted)


@pytest.mark.parametrize("sharing", [None, Sharing(5)], ids=["alone", "shared"])
@pytest.mark.parametrize("kind", SAMPLES)
def test_kept_tokens_are_those_of_memory(tmp_path, tokenizer, monkeypatch, kind, sharing):
    data = write(tmp_path / "data.jsonl", kind)
    expected = load_dataset(data, tokenizer, LENGTH, sharing)
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.data.keeping._KEPT", 0)
    said = []
    with told_by(said.append):
        check_same(load_dataset(data, tokenizer, LENGTH, sharing), expected)
        assert said == [f"{data}: making tokens of it, which later runs take from the cache"]
        again = load_dataset(data, tokenizer, LENGTH, sharing)
        assert len(said) == 1
    check_same(again, expected)


# What earlier builds recorded in states of these data, which have to be resumed.
@pytest.mark.parametrize(
    ("kind", "sharing", "digest"),
    [
        ("text", None, "880ce206e3bc7fdec0d0af289a8b519aac05022b2ec9deb3b3bcd32a7e7caf92"),
        ("completion", None, "4dc75829efb1cd6c1009b381eea61b4a7f59f150ee99eb0def6b004e5fd2f8ec"),
        ("completion", Sharing(5), "f3b680452d7be56888de28d58ffa0be1e996702bf8ca66e1660b982eb364481d"),
        ("messages", None, "8f40826466f36bf1ddb088971b97551b0d4a4a5f34278d86c902a0c3d6d56fc9"),
        ("messages", Sharing(5), "a6dee0238fadca6b29189145c750f9b7f7029c767f56265c301c045754a5baa4"),
    ],
)
def test_a_digest_is_as_earlier_builds_had_it(tmp_path, tokenizer, kind, sharing, digest):
    data = load_dataset(write(tmp_path / "data.jsonl", kind), tokenizer, LENGTH, sharing)
    assert data.digest == digest


def test_another_content_tokenizer_or_template_is_another_entry(tmp_path, tokenizer, cache):
    data = write(tmp_path / "data.jsonl", "messages")
    first = load_dataset(data, tokenizer, LENGTH).digest
    with data.open("a") as file:
        file.write(json.dumps(SAMPLES["messages"][0]) + "\n")
    second = load_dataset(data, tokenizer, LENGTH).digest
    make_tokenizer(tmp_path / "tokenizer", merges=[("h", "e")])
    third = load_dataset(data, Tokenizer(tmp_path), LENGTH).digest
    template = tmp_path / "tokenizer" / "chat_template.jinja"
    template.write_text(template.read_text().replace("<|im_end|>", "<|im_end|>."))
    fourth = load_dataset(data, Tokenizer(tmp_path), LENGTH).digest
    assert len({first, second, third, fourth}) == 4 and len(list((cache / "tokens").iterdir())) == 4


def test_plain_text_is_read_as_a_stream(tmp_path, tokenizer, cache, monkeypatch):
    monkeypatch.setattr("mebp.data.stream._BLOCK", 1 << 10)
    monkeypatch.setattr("mebp.data.cuts.BLOCK", 1 << 11)
    data = tmp_path / "data.txt"
    data.write_text("\ufeff" + "".join(TEXTS))
    found = np.concatenate([row.ids for row in load_dataset(data, tokenizer, LENGTH).rows])
    assert found.tolist() == [*tokenizer.encode("".join(TEXTS)), tokenizer.end_of_text][: len(found)]


def test_a_folder_is_its_files_one_after_the_other(tmp_path, tokenizer):
    folder = tmp_path / "data"
    folder.mkdir()
    whole = write(tmp_path / "whole.jsonl", "completion")
    lines = whole.read_text().splitlines(keepends=True)
    (folder / "a.jsonl").write_text("".join(lines[:20]))
    (folder / "b.jsonl").write_text("".join(lines[20:]))
    assert load_dataset(folder, tokenizer, LENGTH).digest == load_dataset(whole, tokenizer, LENGTH).digest
    (folder / "c.txt").write_text("plain")
    with pytest.raises(Error) as caught:
        load_dataset(folder, tokenizer, LENGTH)
    assert str(caught.value) == (
        f'{folder}/c.txt: has plain text where {folder}/a.jsonl:1 has "prompt" and "completion"; '
        "use one form in the whole folder"
    )


def test_forms_mixed_in_one_file_leave_nothing_behind(tmp_path, tokenizer, cache):
    data = write(tmp_path / "data.jsonl", "text")
    with data.open("a") as file:
        file.write('{"prompt": "a", "completion": "b"}\n')
    with pytest.raises(Error) as caught:
        load_dataset(data, tokenizer, LENGTH)
    assert str(caught.value) == (
        f'{data}:61: has "prompt" and "completion" where {data}:1 has "text"; use one form for all samples'
    )
    assert not [path for path in (cache / "tokens").rglob("*") if path.is_file()]


def test_a_full_disk_under_the_cache_is_one_line(tmp_path, tokenizer, cache):
    data = write(tmp_path / "data.jsonl", "text")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(Error) as caught:
            load_dataset(data, tokenizer, LENGTH)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{cache}/tokens/")
    assert line.endswith(
        ": cannot be written (File too large); make room there, or name another folder with MEBP_CACHE"
    )
    assert not [path for path in (cache / "tokens").rglob("*") if path.is_file()]
    load_dataset(data, tokenizer, LENGTH)


def test_a_damaged_entry_is_said(tmp_path, tokenizer, cache):
    data = write(tmp_path / "data.jsonl", "text")
    load_dataset(data, tokenizer, LENGTH)
    (entry,) = (cache / "tokens").iterdir()
    with (entry / "ids").open("r+b") as file:
        file.truncate(os.path.getsize(entry / "ids") - 4)
    with pytest.raises(Error) as caught:
        load_dataset(data, tokenizer, LENGTH)
    assert str(caught.value) == f"{entry}: is damaged; delete it, and it is made again"


def test_a_file_that_was_read_whole_is_not_read_again_to_be_checked(tmp_path, tokenizer, cache, monkeypatch):
    data = write(tmp_path / "data.jsonl", "text")
    assert not were_read(Source(data))
    load_dataset(data, tokenizer, LENGTH)
    monkeypatch.setattr("mebp.data.loading.SampleFiles", None)  # which would read it
    check_samples(data)


def test_without_a_folder_that_can_be_written_it_is_made_elsewhere(tmp_path, tokenizer, cache):
    data = write(tmp_path / "data.jsonl", "text")
    cache.touch()
    said = []
    with told_by(said.append):
        assert load_dataset(data, tokenizer, LENGTH).rows
    assert "MEBP_CACHE names another folder" in said[0]
