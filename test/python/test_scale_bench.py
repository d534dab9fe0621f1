# SPDX-License-Identifier: Apache-2.0
"""bench/scale.py: what its model of a step says."""

import numpy as np
import pytest
from scale import GRADIENTS, MACHINES, Machine, main, many, step_seconds

FREE = Machine(0.0, 1e30, 0.0)


def test_what_costs_nothing_leaves_the_compute():
    assert step_seconds(2.0, 1.0, GRADIENTS, 4 << 20, FREE) == pytest.approx(2.0)


def test_only_what_the_backward_does_not_hide_is_seen():
    """Of ten buckets in a backward of a second, each of which takes less than a tenth: the last."""
    for each in (0.0, 0.02, 0.09):
        assert step_seconds(2.0, 1.0, 1000.0, 100.0, Machine(each, 1e30, 0.0)) == pytest.approx(2.0 + each)
    # Each takes longer: all of them, from the first one on.
    assert step_seconds(2.0, 1.0, 1000.0, 100.0, Machine(0.3, 1e30, 0.0)) == pytest.approx(1.1 + 10 * 0.3)


def test_more_of_anything_never_takes_less():
    random = np.random.default_rng(0)
    for _ in range(200):
        compute, share, gradients, bucket, alpha, delay = random.uniform(0.1, 1.0, 6)
        machine = Machine(alpha / 10, 10.0, alpha / 100)
        least = step_seconds(compute, share * compute, gradients, bucket, machine, delay)
        slower = Machine(alpha / 5, 5.0, alpha / 100)
        assert least >= compute + 2 * (machine.number + delay)
        assert step_seconds(compute, share * compute, gradients, bucket, machine, 2 * delay) > least
        assert step_seconds(compute, share * compute, gradients, bucket, slower, delay) > least


def test_two_levels_lose_less_than_a_flat_tree():
    _, _, *rows = many()
    assert len(rows) == len(MACHINES)
    for row in rows:
        for cell in row.split(" | ")[1:4]:
            flat, levels = (float(each.rstrip("%")) for each in cell.split(" / "))
            assert levels <= flat


def test_the_page_takes_the_table_of_the_model(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench/scale.py: many machines -->\n<!-- end -->\n")
    monkeypatch.setattr("sys.argv", ["scale.py", "--model-only", "--markdown", str(page)])
    main()
    assert page.read_text().splitlines()[1:-1] == many()
