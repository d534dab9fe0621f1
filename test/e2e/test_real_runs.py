# SPDX-License-Identifier: Apache-2.0
"""The demo's run, from export to merge, of a small model with random weights. `make test` makes one over some of the
conversations, `make soak` (MEBP_SOAK) one of each family over all of them."""

import random

import pytest
from parts.real_run import HEADER, NAMES, Training, run

from support.soak import SOAK

TRAINING = Training() if SOAK else Training(conversations=12, epochs=40, asked=4)


@pytest.mark.parametrize("family", NAMES if SOAK else ["lfm2"])
def test_a_model_learns_and_answers_in_transformers(tmp_path, show, family):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = run(family, tmp_path, TRAINING, seed)
    show("\n".join([*HEADER, result.row()]))
    assert result.last_loss < result.first_loss / 10
    assert result.same_bits
    assert result.same_answers == result.asked
    assert result.passes
