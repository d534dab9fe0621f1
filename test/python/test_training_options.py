# SPDX-License-Identifier: Apache-2.0
"""Invalid options."""

import pytest

from mebp.errors import Error
from mebp.training.options import TrainingOptions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 1, "epochs": 1}, "--steps and --epochs cannot be used together; give one"),
        ({"steps": 0}, "--steps is 0; give at least 1"),
        ({"accumulate": 0}, "--accumulate is 0; give at least 1"),
        (
            {"accumulate": 2, "in_flight": 2, "objective": "dpo"},
            "--in-flight sends batches ahead, and --objective dpo takes one sequence after the other; leave one of "
            "them out",
        ),
        ({"in_flight": 0}, "--in-flight is 0; give at least 1"),
        (
            {"accumulate": 2, "in_flight": 3},
            "--in-flight 3 is more than the 2 of --accumulate, which are all batches of a step; give at most as many",
        ),
        ({"eval": "x", "eval_every": 0}, "--eval-every is 0; give at least 1"),
        ({"save_every": -1}, "--save-every is -1; give at least 1"),
        ({"warmup": -1}, "--warmup is -1; give at least 0"),
        ({"clip": 0.0}, "--clip is 0; give a number above 0"),
        ({"clip": float("nan")}, "--clip is nan; give a number above 0"),
        ({"schedule": "step"}, "--schedule is 'step'; choose constant, linear, cosine"),
        ({"resume": True}, "--resume needs --state DIR, the folder to continue from"),
        ({"pause_on": "SIGINT", "state": "x"}, "--pause-on is 'SIGINT'; choose SIGUSR1 or SIGUSR2"),
        ({"pause_on": "SIGUSR1"}, "--pause-on needs --state DIR, where the run is kept meanwhile"),
        (
            {"pause_on": "SIGUSR1", "state": "x", "profile": "y"},
            "--pause-on and --profile cannot be used together; give one",
        ),
        (
            {"report_to": "tensorboard, mlflow"},
            "--report-to is 'mlflow'; choose tensorboard, wandb, trackio, or several with commas",
        ),
        ({"reward_timeout": -1.0, "objective": "grpo"}, "--reward-timeout is -1; give seconds, or 0 for no limit"),
        (
            {"reward_timeout": float("inf"), "objective": "grpo"},
            "--reward-timeout is inf; give seconds, or 0 for no limit",
        ),
        (
            {"reward_timeout": 1.0},
            "--reward-timeout is of completions that the model writes; give --objective grpo or ppo, too",
        ),
        (
            {"eval_every": 2, "steps": 1},
            "--eval-every needs --eval FILE, the data to measure the loss on, or --val-split X",
        ),
        ({"warmup": 1, "warmup_ratio": 0.1}, "--warmup and --warmup-ratio cannot be used together; give one"),
        ({"warmup_ratio": 1.0}, "--warmup-ratio is 1; give a share of the steps, such as 0.03"),
        ({"warmup_ratio": float("nan")}, "--warmup-ratio is nan; give a share of the steps, such as 0.03"),
        ({"val_split": 0.0}, "--val-split is 0; give a share of the samples, such as 0.05"),
        (
            {"val_split": 0.1, "eval": "x"},
            "--val-split and --eval cannot be used together: each says what to measure on; give one",
        ),
        (
            {"val_split": 0.1, "objective": "dpo"},
            "--val-split holds samples of text or with classes out; give --eval FILE, which any objective and task can "
            "measure on",
        ),
    ],
)
def test_refusals(given, message):
    with pytest.raises(Error) as caught:
        TrainingOptions("a.mebp", "data.txt", **given)
    assert str(caught.value) == message
