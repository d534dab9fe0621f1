# SPDX-License-Identifier: Apache-2.0
"""Lists of samples in place of files: what they are on disk, what is a path, and what is refused."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mebp.building.pruning import list_entries
from mebp.data.reading import read_samples
from mebp.errors import Error
from mebp.training.lists import lists_as_files
from mebp.words import printable

SAMPLES = [{"prompt": f"{number}:", "completion": " lit"} for number in range(3)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def taken(**given: object) -> dict[str, object]:
    with lists_as_files(given) as options:
        return options


def test_a_list_lies_in_the_cache_by_its_content(cache):
    file = taken(data=SAMPLES)["data"]
    assert file.parent.parent == cache / "lists" and file.name == "data.jsonl"
    assert list(map(json.loads, file.read_text().splitlines())) == SAMPLES
    written = file.stat().st_mtime_ns
    assert taken(data=tuple(SAMPLES))["data"] == file and file.stat().st_mtime_ns == written
    assert len({file, taken(data=SAMPLES[:2])["data"], taken(eval=SAMPLES)["eval"]}) == 3
    assert f"lists/{file.parent.name}" in [entry.name for entry in list_entries()[0]]


def test_what_numpy_holds_is_what_json_has():
    odd = {"prompt_ids": np.arange(3), "completions": [{"ids": (1, 2), "reward": np.float32(0.5), "mask": [np.True_]}]}
    line = taken(rollouts=[odd])["rollouts"].read_text()
    assert json.loads(line) == {
        "prompt_ids": [0, 1, 2],
        "completions": [{"ids": [1, 2], "reward": 0.5, "mask": [True]}],
    }


def test_texts_are_samples_where_they_are_not_names(tmp_path):
    texts = ["The gate is locked at nine.", "wick", "A line\nand its next one."]
    file = taken(data=texts)["data"]
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"text": text} for text in texts]
    (tmp_path / "my notes").touch()
    for paths in (["a.jsonl:0.2", "b.jsonl"], ["hub:a/b"], ["my notes"], ["my notes:0.25", Path("c d")], ["misspelt"]):
        assert taken(data=paths)["data"] == paths
    plain = {"data": "a b", "eval": Path("c"), "test": None, "ask": ["Who? ", "it"], "steps": 3}
    assert taken(**plain) == plain
    several = taken(data=["a.jsonl", SAMPLES, texts])["data"]
    assert several[0] == "a.jsonl" and [file.name for file in several[1:]] == ["data[1].jsonl", "data[2].jsonl"]


def test_a_line_says_which_sample_it_is():
    with lists_as_files({"data": [SAMPLES, [{"text": 3}]], "eval": SAMPLES}) as options:
        first, second = options["data"]
        with pytest.raises(Error) as caught:
            read_samples(second)
        assert str(caught.value) == 'sample 1 of data[1]: "text" is a number; give a string'
        assert printable(f"{first}:2: so; {options['eval']}: 3 tokens") == "sample 2 of data[0]: so; eval: 3 tokens"
        command = f"next: mebp eval a --data {options['eval']}"
        assert printable(command) == command
        quoted = f"mebp eval a --data '{first}'"
        assert printable(quoted) == quoted
    assert printable(f"{first}:2") == f"{first}:2"


class Frame:
    def iterrows(self) -> None: ...


class Knot(dict):
    def __init__(self) -> None:
        super().__init__(text=[self])


GIVE = "give a dict for each sample, or a text for each"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"data": []}, f"data is an empty list; {GIVE}"),
        ({"data": SAMPLES, "eval": ()}, f"eval is an empty list; {GIVE}"),
        ({"data": [SAMPLES, []]}, f"data[1] is an empty list; {GIVE}"),
        ({"data": [*SAMPLES, 3]}, f"sample 4 of data is of type int; {GIVE}"),
        ({"data": [*SAMPLES, "a b"]}, f"sample 4 of data is a text where the first one is a dict; {GIVE}"),
        ({"ask": ["Who?", SAMPLES[0]]}, f"sample 2 of ask is a dict where the first one is a text; {GIVE}"),
        ({"data": iter(SAMPLES)},
         "data is of type list_iterator; give list(data), with a dict or a text for each sample"),
        ({"eval": (each for each in SAMPLES)},
         "eval is of type generator; give list(eval), with a dict or a text for each sample"),
        ({"data": Frame()}, 'data is of type Frame; give data.to_dict("records"), a list of dicts'),
        ({"data": {"text": ["a"]}},
         "data is {'text': ['a']}; give a path, or a list with a dict or a text for each sample"),
        ({"test": 3}, "test is 3; give a path, or a list with a dict or a text for each sample"),
        ({"data": ["a b", "c.jsonl"]},
         "data has 'c.jsonl', which names a file, among samples; give files alone or samples alone, and a text that is "
         'a name, too, as {"text": ...}'),
        ({"data": [{"when": date(2026, 1, 1)}]},
         "sample 1 of data: has a value of type date; give texts, numbers, lists and dicts alone"),
        ({"data": [*SAMPLES, {(1, 2): "x"}]}, "sample 4 of data: has a key that is not a text; give each value a name"),
        ({"data": [Knot()]}, "sample 1 of data: holds itself or is nested too deep; make it flatter"),
    ],
)  # fmt: skip
def test_refusals(cache, given, line):
    with pytest.raises(Error) as caught:
        taken(**given)
    assert str(caught.value) == line
    assert not list(cache.glob("lists/*/*4*"))
