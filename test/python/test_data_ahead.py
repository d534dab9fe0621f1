# SPDX-License-Identifier: Apache-2.0
"""The next thing is made by another thread, one at a time."""

import threading
from collections.abc import Iterator

import pytest

from mebp import Error
from mebp.data.ahead import ahead
from mebp.waiting import tell, told_by


def test_one_thing_is_made_while_another_is_used():
    made: list[int] = []
    wanted = threading.Event()

    def items() -> Iterator[int]:
        for number in range(4):
            made.append(threading.get_ident())
            if number:
                wanted.set()
            yield number

    found = []
    for number in ahead(items()):
        assert wanted.wait(10)  # for the next one is on its way
        assert len(made) <= number + 2
        found.append(number)
    assert found == [0, 1, 2, 3] and threading.get_ident() not in made
    assert not any(thread.ident in made for thread in threading.enumerate())


def test_an_error_comes_in_its_place_and_the_thread_ends():
    def items() -> Iterator[int]:
        yield 1
        raise Error("data.jsonl:2: is wrong; correct it")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(Error, match=r"data\.jsonl:2: is wrong"):
        next(found)


def test_what_the_other_thread_tells_is_heard():
    def items() -> Iterator[int]:
        tell("reading")
        yield 1

    said: list[str] = []
    with told_by(said.append):
        assert list(ahead(items())) == [1]
    assert said == ["reading"]
