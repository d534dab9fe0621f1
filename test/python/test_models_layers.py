# SPDX-License-Identifier: Apache-2.0
"""bench/parts/models: the kinds of layers of a model, and what is said of a type where not all can be trained."""

from parts.models.attempt import Trial, judged
from parts.models.layers import distinct, known_layers, layer_kinds
from parts.public_shapes import SHAPES, configuration

from mebp.models import ModelType

EXACT = ModelType("a", "exact", gradients=4, worst=1e-6, text=32, configurations=1)


def kinds(name: str) -> list[str]:
    return distinct(layer_kinds(configuration(SHAPES[name])))


def test_layers_are_told_apart_by_what_they_compute():
    assert kinds("Llama-3.1-8B") == []
    assert kinds("LFM2-1.2B") == ["conv", "full_attention"]
    assert kinds("DeepSeek-V3") == ["dense", "experts"]
    assert kinds("SmolLM3-3B") == ["full_attention", "full_attention + no rotation"]
    assert kinds("Gemma-4-31B") == ["sliding_attention", "full_attention"]
    assert kinds("Gemma-4-26B-A4B") == ["sliding_attention + experts", "full_attention + experts"]
    assert kinds("Jamba-1.5-Mini") == ["linear_attention", "linear_attention + experts", "full_attention"]


def test_a_type_has_all_that_its_class_asks_for():
    assert known_layers("lfm2") == ["conv", "full_attention"]  # by default it has attention alone
    assert known_layers("qwen3") == ["full_attention", "sliding_attention"]
    assert known_layers("llama") == []


def test_a_type_is_exact_if_all_its_layers_are():
    worse = ModelType("a", "exact", gradients=6, worst=3e-6, configurations=1)
    trials = [Trial("", EXACT, ["full"]), Trial("as A-1B", worse, ["full", "sliding"])]
    assert judged(trials) == ModelType(
        "a", "exact", gradients=4, worst=3e-6, text=32, configurations=2, layers="full, sliding"
    )


def test_a_type_is_refused_where_one_kind_is_and_says_what_is_exact():
    refused = ModelType("a", "refused", "no conv")
    mixed = Trial("with layers of conv and full", refused, ["conv", "full"])
    assert judged([Trial("", EXACT, ["full"]), mixed]) == ModelType(
        "a",
        "refused",
        "with layers of conv and full: no conv; trained exactly with layers of full alone",
        layers="full, conv",
    )
    assert judged([Trial("", refused), Trial("as A-1B", EXACT), Trial("as A-2B", EXACT)]) == ModelType(
        "a", "refused", "no conv; trained exactly as A-1B, as A-2B"
    )
    assert judged([Trial("", EXACT), Trial("as A-1B", refused)]) == ModelType(
        "a", "refused", "as A-1B: no conv; trained exactly otherwise"
    )
