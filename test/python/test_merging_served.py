# SPDX-License-Identifier: Apache-2.0
"""What the losses of stored and published weights say, without measuring them."""

import pytest

import mebp
from mebp.merging.served import PUBLISHED, STORED, Pair, ServedLosses


def losses(published: Pair | None, **fields: object) -> ServedLosses:
    return ServedLosses("data/d.txt", "d.txt", "f32", "int4", Pair(3.0, 1.0), published, "bf16", **fields)


def test_the_lower_loss_is_better_and_a_tie_stays():
    assert losses(Pair(2.0, 0.9)).better == PUBLISHED
    assert losses(Pair(2.0, 1.1)).better == losses(Pair(2.0, 1.0)).better == losses(None).better == STORED


def test_advice():
    lower = losses(Pair(2.0, 0.9))
    assert lower.advice(PUBLISHED) is None
    assert lower.advice(STORED) == (
        "beside the published weights the adapter has the lower loss, by 0.1000: merge with --onto published"
    )
    assert losses(Pair(2.0, 1.2)).advice(PUBLISHED) == (
        "beside the stored weights the adapter has the lower loss, by 0.2000: merge with --onto stored"
    )
    assert losses(Pair(2.0, 0.99995)).advice(STORED) is None  # no more than rounding
    assert losses(None).advice(STORED) is None


def test_the_table():
    assert losses(Pair(2.0, 0.9), written={"merged onto stored, q8_0": 1.01}).table().splitlines() == [
        "loss on data/d.txt, f32   without adapter  with adapter",
        "stored weights, int4               3.0000        1.0000",
        "published weights, bf16            2.0000        0.9000",
        "merged onto stored, q8_0                         1.0100",
        "storing the weights as int4 costs 1.0000 without the adapter",
    ]
    assert len(losses(None).table().splitlines()) == 2


def test_auto_needs_both():
    assert losses(Pair(2.0, 0.9)).choice == PUBLISHED
    with pytest.raises(mebp.Error, match="--onto auto compares with the published weights: gone; --base MODEL"):
        _ = losses(None, unmeasured="gone; --base MODEL names its place").choice


def test_numbers_are_those_that_were_measured():
    assert losses(None).numbers() == {"stored_base": 3.0, "stored_adapter": 1.0}
    assert losses(Pair(2.0, 0.9)).numbers() == {
        "stored_base": 3.0,
        "stored_adapter": 1.0,
        "published_base": 2.0,
        "published_adapter": 0.9,
    }
