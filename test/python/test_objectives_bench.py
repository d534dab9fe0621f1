# SPDX-License-Identifier: Apache-2.0
"""What bench/trl_trainers.py and bench/objectives.py make of their runs."""

from pathlib import Path
from types import SimpleNamespace

import objectives
import pytest
import trl_trainers

from mebp.data.dataset import rows_of_step


def test_completions_stand_where_a_run_takes_them():
    rollouts = [
        {"prompt_ids": [[number]] * 4, "completion_ids": [[number, each] for each in range(4)], "logprobs": [[0.0]] * 4}
        for number in range(5)
    ]
    prompts = [{"prompt": str(number)} for number in range(5)]
    lines = trl_trainers.as_lines(prompts, rollouts)
    for step in range(5):
        (row,) = rows_of_step(5, step, 1, 0)
        assert lines[row]["prompt"] == str(step) and lines[row]["prompt_ids"] == [step]
        assert [each["ids"] for each in lines[row]["completions"]] == [[step, each] for each in range(4)]


def test_curves_are_compared_step_by_step():
    def steps(*losses):
        names = ("loss", "rewards/margins", "rewards/chosen", "rewards/rejected", "grad_norm")
        return [dict.fromkeys(names, loss) for loss in losses]

    runs = {"sdpa": steps(1.0, 2.0), "eager": steps(1.0, 2.5), "float64, sdpa": steps(1.0, 2.0), "mebp": steps(1, 1)}
    compared = trl_trainers.compare("dpo", runs)
    assert compared[0].ours_from_sdpa == pytest.approx(0.5**0.5) and compared[0].sdpa_from_exact == 0
    row = trl_trainers.table(compared)[2]
    assert row == "| dpo | loss | 1 | 2 | 3.5e-01 | 7.1e-01 | 2.0 | 0.0e+00 | 7.1e-01 |"


def test_ratios_are_within_a_round():
    bench = objectives.Bench(SimpleNamespace(threads=1, rounds=2, pair=(1, 2), completion=(1, 2)), Path())
    bench.description = lambda: {"trainables": [{"rows": 10, "columns": 10}]}
    made = {
        objectives.SFT: (2, 100),
        objectives.DPO: (4, 400),
        objectives.SCORING: (5, 400),
        objectives.TRL_DPO: (8, 5000),
    }
    for name, (seconds, peak) in made.items():
        bench.answers[name] = [{"seconds": seconds * speed, "peak_bytes": peak} for speed in (1, 3)]
    rows = objectives.claims_table(list(bench.claims()))
    assert "| step: DPO / SFT | <= 2.05 | 2 |" in rows
    assert f"| DPO's peak / (1.02 SFT's + an adapter's gradient) | <= 1 | {400 / 502:.3g} |" in rows
    assert "| peak: TRL's DPO / mebp's | >= 10 | 12.5 |" in rows
