# SPDX-License-Identifier: Apache-2.0
"""What mebp.ray.fit refuses before Ray is started."""

import sys
from pathlib import Path

import pytest

import mebp
from mebp.ray import fit


def refusal(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> str:
    monkeypatch.setitem(sys.modules, "ray", None)  # whatever gets as far has another line
    data = folder / "data.txt"
    data.write_text("The lamp is lit.")
    with pytest.raises(mebp.Error) as caught:
        fit("model", data, **options)
    assert list(folder.iterdir()) == [data]
    return str(caught.value)


_RANGE = {"workers": (2, 4), "state": "state"}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"worker": 2}, "unknown option 'worker'; "),
        ({"lr": "much"}, "lr is 'much'; give a number"),
        ({"epochs": 0}, "--epochs is 0; give at least 1"),
        ({"workers": 0}, "workers is 0; give a number of at least 1, or the fewest and the most, such as (2, 4)"),
        ({"workers": True}, "workers is True; give a number of at least 1, or the fewest and the most, such as (2, 4)"),
        ({"workers": (4, 2)},
         "workers is (4, 2); give a number of at least 1, or the fewest and the most, such as (2, 4)"),
        ({"workers": (1, 2, 3)},
         "workers is (1, 2, 3); give a number of at least 1, or the fewest and the most, such as (2, 4)"),
        ({"max_failures": -1}, "max_failures is -1; give a whole number of at least 0"),
        ({"max_failures": 3},
         "max_failures=3 makes Ray start the run again, from its beginning; give state=DIR, to go on from"),
        ({"workers": (2, 4)},
         "workers=(2, 4) makes Ray start the run again, from its beginning; give state=DIR, to go on from"),
        (_RANGE, "workers=(2, 4) may change within the run, and its steps with them; give global_batch=M"),
        ({**_RANGE, "global_batch": 2},
         "--global-batch 2: 4 processes need a micro-batch each; give at least 4, or start fewer"),
        ({"workers": 4, "global_batch": 3},
         "--global-batch 3: 4 processes need a micro-batch each; give at least 4, or start fewer"),
        ({"plan_only": True}, "--plan-only is of a run in one process, and Ray starts 2; leave it out"),
        ({"device": "mlx"}, "device is mlx, and Ray's workers compute on CPUs; leave it out, or start with torchrun"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(tmp_path, monkeypatch, options, line):
    assert refusal(tmp_path, monkeypatch, **options).startswith(line)


def test_without_ray_it_says_how_to_install_it(tmp_path, monkeypatch):
    """Workers of one kind, and with all that is checked before."""
    line = refusal(tmp_path, monkeypatch, workers=(2, 4), global_batch=4, max_failures=3, state=tmp_path / "state")
    assert line.startswith("mebp.ray.fit needs ray (")
    assert line.endswith("; install it with: pip install 'mebp[ray]'")
