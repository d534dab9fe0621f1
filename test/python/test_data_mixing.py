# SPDX-License-Identifier: Apache-2.0
"""Several files: what --data may name, and which rows an epoch takes of each."""

from pathlib import Path

import numpy as np
import pytest

from mebp.data import Dataset, Row
from mebp.data.loading import mix_datasets
from mebp.data.mixing import Mix, choose_taken
from mebp.data.sources import Source, names_of, read_sources
from mebp.errors import Error


def dataset(count: int, first: int) -> Dataset:
    ids = [np.array([first + index, 1], dtype=np.int32) for index in range(count)]
    return Dataset([Row(each, each) for each in ids], padding=0)


def mixed(*counts_and_shares: tuple[int, float | None]) -> Dataset:
    sources = [Source(Path(f"{index}.jsonl"), share) for index, (_, share) in enumerate(counts_and_shares)]
    sources = read_sources(sources)
    return mix_datasets(sources, [dataset(count, 1000 * index) for index, (count, _) in enumerate(counts_and_shares)])


def epoch_of(data: Dataset, epoch: int, rows_per_step: int = 4, seed: int = 3) -> list[int]:
    steps = data.steps_per_epoch(rows_per_step)
    found = []
    for step in range(steps * epoch, steps * (epoch + 1)):
        for ids in data.step_batches(step, rows_per_step, 1, seed)[0]:
            found += ids[:, 0].tolist()
    return found


@pytest.mark.parametrize(
    ("rows", "shares", "taken"),
    [
        ((80, 7), (None, 0.2), [80, 20]),
        ((80, 7), (None, None), [80, 7]),
        ((30, 30, 900), (None, None, 0.25), [30, 30, 20]),
        ((10, 90), (0.5, 0.5), [50, 50]),
        ((3, 500, 500), (None, 0.3, 0.6), [3, 9, 18]),
        ((1000, 5), (None, 0.0001), [1000, 1]),
    ],
)
def test_shares_are_exact_over_an_epoch(rows, shares, taken):
    assert choose_taken(rows, shares) == taken
    data = mixed(*zip(rows, shares, strict=True))
    for epoch in range(2):
        found = epoch_of(data, epoch)
        assert [sum(first // 1000 == index for first in found) for index in range(len(rows))] == taken


def test_rows_of_a_file_come_equally_often():
    few, many = mixed((60, None), (7, 0.25)), mixed((60, None), (70, 0.25))  # 20 of each an epoch
    seen = [first for epoch in range(7) for first in epoch_of(few, epoch) if first >= 1000]
    assert {seen.count(1000 + index) for index in range(7)} == {20}
    first, second, third, fourth = ({first for first in epoch_of(many, epoch) if first >= 1000} for epoch in range(4))
    assert len(first | second | third) == 60 and len(first | second | third | fourth) == 70
    for data in (few, many):
        assert sorted(first for first in epoch_of(data, 5) if first < 1000) == list(range(60))


def test_the_mix_is_the_same_in_every_run_and_depends_on_the_seed():
    one, other = mixed((60, None), (7, 0.25)), mixed((60, None), (7, 0.25))
    assert epoch_of(one, 1) == epoch_of(other, 1) != epoch_of(one, 2)
    assert epoch_of(one, 1) != epoch_of(one, 1, seed=4)
    assert one.digest == other.digest != mixed((60, None), (7, 0.3)).digest


def test_files_without_shares_are_as_one_file():
    together = dataset(9, 0)
    rows = list(together.rows)
    sources = read_sources(["a", "b"])
    data = mix_datasets(sources, [Dataset(rows[:4], padding=0), Dataset(rows[4:], padding=0)])
    assert [epoch_of(data, epoch) for epoch in range(3)] == [epoch_of(together, epoch) for epoch in range(3)]


def test_whose_a_row_is():
    mix = Mix(("a", "b", "c"), (2, 3, 1), (2, 3, 1))
    assert mix.sources(np.arange(6)).tolist() == [0, 0, 1, 1, 1, 2]


def test_what_is_named(tmp_path):
    odd = tmp_path / "notes:0.5"
    odd.touch()
    assert read_sources([f"{odd}"]) == (Source(odd),)
    assert read_sources(["a.jsonl", "b.jsonl:0.2"]) == (Source(Path("a.jsonl")), Source(Path("b.jsonl"), 0.2))
    assert read_sources("a:b") == (Source(Path("a:b")),)
    named = names_of(read_sources(["x/a.jsonl", "y/a.jsonl", "y/b.jsonl:0.5"]))
    assert named == ["x/a.jsonl", "y/a.jsonl", "y/b.jsonl"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", "b:0"], "--data b:0: the share is 0; give a number above 0 and below 1, such as b:0.2"),
        (["a", "b:1.5"], "--data b:1.5: the share is 1.5; give a number above 0 and below 1, such as b:0.2"),
        (["a", "b:nan"], "--data b:nan: the share is nan; give a number above 0 and below 1, such as b:0.2"),
        (["a", "b:-0.5"], "--data b:-0.5: the share is -0.5; give a number above 0 and below 1, such as b:0.2"),
        (["a:0.5"], "--data a:0.5: a share is of several files; leave it out, or give another --data"),
        (
            ["a:0.5", "b:0.4"],
            "the shares of --data are 0.9 together; make it 1, or leave one out, which takes the rest",
        ),
        (["a:0.5", "b:0.5", "c"], "the shares of --data are 1 together; leave something to the file without a share"),
        (["a", "a:0.5"], "--data a is given twice; keep one, and give it a share if it is to count more"),
        ([], "--data is empty; give a file"),
        ([3], "data is 3; give a path, or several"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(Error) as caught:
        read_sources(given)
    assert str(caught.value) == message
