# SPDX-License-Identifier: Apache-2.0
"""What a state says beside its tensors: a stranger's is refused in one line, whatever is in it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mebp.errors import Error
from mebp.training import state
from mebp.training.objectives.episodes import _Episode
from mebp.training.objectives.groups import _Scored
from mebp.training.standing import Standing

PROMPT, COMPLETION = np.array([5, 6], np.int32), np.array([7, 8, 9], np.int32)
LOGPS = np.array([-1.5, -0.25, -3], np.float32)
SCORED = _Scored(PROMPT, COMPLETION, 0.5, np.array([True, True, False]), LOGPS, None, LOGPS)
EPISODE = _Episode(PROMPT, COMPLETION, 2, LOGPS[:2], LOGPS, LOGPS, LOGPS[:2], LOGPS)


class Loaded:
    """A session whose state travelled with these bytes."""

    def __init__(self, user: bytes) -> None:
        self.user = user

    def load_state(self, folder: Path) -> bytes:
        return self.user


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(Error) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("kept", [SCORED, EPISODE], ids=["group", "episode"])
def test_a_completion_comes_back_as_it_was(kept):
    restored = type(kept).restored(json.loads(json.dumps(kept.saved())))
    for name, value in vars(kept).items():
        found = getattr(restored, name)
        np.testing.assert_array_equal(found, value)
        assert getattr(found, "dtype", None) == getattr(value, "dtype", None)


@pytest.mark.parametrize("kept", [SCORED, EPISODE], ids=["group", "episode"])
def test_a_completion_that_no_run_keeps_is_refused(kept):
    saved = json.loads(json.dumps(kept.saved()))
    odd = [None, "a", True, 1e400, [], [[1]], {}, [1, 2], ["a"] * 3, [None] * 3, [2**40] * 3, [1.5] * 3, [True] * 3]
    tried = [{**saved, name: value} for name in saved for value in odd]
    tried += [{**saved, "other": 1}, {}, [], None, "a", 7, *({**saved, name: [1, 2, 3, 4]} for name in saved)]
    accepted = []
    for each in tried:
        try:
            accepted.append(type(kept).restored(each))
        except (ValueError, TypeError, OverflowError):
            continue
    for restored in accepted:  # what may be None, numbers of any size, and lists that fit
        for name, value in vars(restored).items():
            if isinstance(value, np.ndarray):
                assert value.ndim == 1
                assert value.size == restored.tokens_of(name) or name in ("prompt", "completion")
    assert len(accepted) < len(tried) / 3


@pytest.mark.parametrize("user", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'"a"'])
def test_what_travels_is_an_object(tmp_path, user):
    line = refusal(lambda: state.load(Loaded(user), tmp_path, {}))
    assert line == f"{tmp_path}: was not saved by mebp train; choose another --state"


def test_what_it_was_made_with_is_one_line_that_can_be_read(tmp_path):
    for value, shown in [
        (3, "3"),
        ("cosine", "cosine"),
        (None, "None"),
        ("\x1b[2Jcosine\nmebp: all is well", r"'\x1b[2Jcosin...: all is well'"),
        ("a" * 10_000, "'aaaaaaaaaaaa...aaaaaaaaaaaaa'"),
    ]:
        user = json.dumps({"--schedule": value}).encode()
        line = refusal(lambda user=user: state.load(Loaded(user), tmp_path, {"--schedule": "linear"}))
        assert line == (
            f"{tmp_path}: was made with --schedule {shown}, not linear; resume with the same, or start over without "
            "--resume"
        )


@pytest.mark.parametrize("standing", ["high", {"misses": "2"}])
def test_records_of_another_kind_are_one_line(tmp_path, standing):
    def restore() -> None:
        with state.restoring(tmp_path):
            Standing.restored(standing)

    line = refusal(restore)
    assert line.startswith(f"{tmp_path}: was not saved by mebp train (")
    assert line.endswith("); choose another --state")
    assert state.records({}, "reports") == {}
    with pytest.raises(ValueError):
        state.records({"reports": ["a"]}, "reports")


def test_a_description_that_is_a_hole_is_not_read(tmp_path):
    """A hole in a file takes no disk, and would take all memory."""
    length = 1 << 40
    header = json.dumps({"mebp.user": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}).encode()
    with (tmp_path / "state.bin").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + length)
    assert state.saved_with(tmp_path) == {}
