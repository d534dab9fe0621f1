# SPDX-License-Identifier: Apache-2.0
"""The tasks that Python knows are those of bundles, and transformers has a class for each."""

import re
from pathlib import Path

import pytest
import transformers

from mebp.tasks import TASKS, task_of

ROOT = Path(__file__).resolve().parents[2]


def test_the_tasks_are_those_of_the_format():
    rows = re.findall(r'\{(\w+), "([\w-]+)", (true|false), (true|false),', (ROOT / "format" / "tasks.h").read_text())
    found = {name: (number, classes == "true") for number, name, _, classes in rows}
    assert found == {name: (name.upper().replace("-", "_"), task.has_classes) for name, task in TASKS.items()}


@pytest.mark.parametrize("task", TASKS)
def test_a_model_says_its_task(task):
    sizes = {"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.AutoConfig.for_model("roberta", **sizes, intermediate_size=8, is_decoder=task == "causal")
    assert task_of(getattr(transformers, TASKS[task].auto).from_config(config)) == task
