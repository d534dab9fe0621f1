# SPDX-License-Identifier: Apache-2.0
"""What is kept of completions, as a state and other processes have it."""

import json
from dataclasses import fields

import numpy as np
import pytest

import mebp
from mebp.training.objectives.episodes import Episodes
from mebp.training.objectives.groups import Groups
from mebp.training.objectives.kept import Kept


def made(kind: type[Kept], seed: int) -> Kept:
    random = np.random.default_rng(seed)
    tokens, prompt = (int(each) for each in random.integers(1, 9, 2))

    def value(name: str, stated: object) -> object:
        if stated in (int, float):
            return tokens if stated is int else float(random.normal())
        if stated != np.ndarray and random.integers(3) == 0:
            return None
        length = prompt if name == "prompt" else tokens
        if name in ("prompt", "completion"):
            return random.integers(0, 2**31, length).astype(np.int32)
        numbers = random.normal(size=length).astype(np.float32)
        return numbers > 0 if name == "mask" else np.where(numbers > 1, np.float32(np.nan), numbers)

    return kind(**{each.name: value(each.name, each.type) for each in fields(kind)})


@pytest.mark.parametrize("kind", [Groups.kept, Episodes.kept])
@pytest.mark.parametrize("way", ["sent", "saved"])
def test_it_comes_back_as_it_was(kind, way):
    for seed in range(100):
        kept = made(kind, seed)
        sent = kept.packed()
        back = kind.unpacked(sent) if way == "sent" else kind.restored(json.loads(json.dumps(kept.saved())))
        for name, value in vars(kept).items():
            found = getattr(back, name)
            assert type(found) is type(value), (seed, name)
            np.testing.assert_array_equal(found, value, err_msg=f"{seed}: {name}")
            assert not isinstance(value, np.ndarray) or found.dtype == value.dtype, (seed, name)


@pytest.mark.parametrize("kind", [Groups.kept, Episodes.kept])
def test_a_part_of_it_is_refused(kind):
    for seed in range(20):
        sent = made(kind, seed).packed()
        for end in range(len(sent)):
            with pytest.raises((ValueError, TypeError)):
                kind.unpacked(sent[:end])


def test_what_is_no_completion_is_refused_in_one_line():
    groups = Groups.__new__(Groups)
    groups._shared = object()

    class Garbled:
        def of_all(self, own: dict) -> list[np.ndarray]:
            return [values[:-1] for values in own.values()]

    groups._steps = Garbled()
    with pytest.raises(mebp.Error) as refused:
        groups._share({0: made(Groups.kept, 1)})
    assert str(refused.value) == "another process of the group sends no completions; start all from the same mebp"
