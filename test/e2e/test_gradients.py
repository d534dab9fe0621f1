# SPDX-License-Identifier: Apache-2.0
"""The loss and every LoRA gradient against true float64, on the same dequantised weights."""

import numpy as np
import pytest

import mebp
from mebp.inspect import inspect
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import check, compare_gradients, make_bundle
from support.soak import SOAK

ALIBI = "bloom: biases by position, heads of queries, keys and values"
# Sizes that divide nothing: widths that are no multiple of 32, head sizes that are no multiple of a vector, few heads.
CASES = {
    "llama": ("llama", {}),
    "llama, biases, one kv head": (
        "llama",
        {
            "hidden_size": 84,
            "head_dim": 14,
            "num_attention_heads": 6,
            "num_key_value_heads": 1,
            "intermediate_size": 130,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    "qwen2, biases, tied": ("qwen2", {}),
    "qwen2, untied, three kv heads": (
        "qwen2",
        {
            "hidden_size": 72,
            "head_dim": 12,
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "intermediate_size": 150,
            "tie_word_embeddings": False,
        },
    ),
    "gpt2": ("gpt2", {}),
    "gpt2, tanh gelu": ("gpt2_tanh", {}),
    "cohere: interleaved rotary, parallel, scaled head": ("cohere", {}),
    "gemma2: capped attention and logits": ("gemma2", {}),
    "falcon: groups of queries with their key and value": (
        "falcon",
        {"new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "persimmon: a layer norm of each head, squared relu": ("persimmon", {}),
    "stablelm: a layer norm for each head": ("stablelm", {}),
    "apertus: xIELU": ("apertus", {}),
    "afmoe: a gate on what attention gives": ("afmoe", {}),
    "nanochat: turned the other way": ("nanochat", {}),
    "gpt_neox: partial rotary, parallel, heads of queries, keys and values": ("gpt_neox", {}),
    "nemotron: 1 + w of a layer norm, squared relu": ("nemotron", {}),
    "olmo: norms without a weight": ("olmo", {}),
    "opt: positions from 2": ("opt", {}),
    "phi: a head with a bias": ("phi", {}),
    "qwen2_moe: experts beside one with a gate": ("qwen2_moe", {}),
    "qwen3_moe: experts and a dense layer": ("qwen3_moe", {}),
    "glm4_moe: a bias chooses, from groups": ("glm4_moe", {}),
    "granitemoe: a softmax of those that are chosen": ("granitemoe", {}),
    "phimoe: a softmax for each slot of what is near": ("phimoe", {}),
    "granite_swa: attention sinks": ("granite_swa", {}),
    "gpt_oss: experts with biases and bounds, and sinks": ("gpt_oss", {}),
    ALIBI: ("bloom", {}),
    "mpt: biases by position of twelve heads, bounded projections": ("mpt", {}),
    "falcon: biases by position of twelve heads that share keys": (
        "falcon_alibi",
        {"num_attention_heads": 12, "multi_query": True, "bias": False},
    ),
    "deepseek_v3: latent attention, whose values are narrower than keys": ("deepseek_v3", {}),
}
COMPILED_SEQUENCE, COMPILED_BATCH = 48, 3


def some_ignored(ids: np.ndarray) -> np.ndarray:
    labels = ids.copy()
    labels[0, :7] = -100
    labels[-1, -5:] = -100
    labels[:, 11] = -100
    return labels


def compare(model, bundle, batch, sequence, **session_options):
    session = mebp.Session(bundle, **session_options)
    randomise_adapter(session)
    ids = models.token_ids(model, batch, sequence).numpy()
    return compare_gradients(bundle, session, model, ids, some_ignored(ids))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Each case's model and bundle, made once."""
    made = {}

    def make(name: str):
        if name not in made:
            family, overrides = CASES[name]
            model = models.build(family, **overrides)
            folder = tmp_path_factory.mktemp("bundle")
            made[name] = model, make_bundle(model, folder, seq_len=COMPILED_SEQUENCE, batch=COMPILED_BATCH)
        return made[name]

    return make


@pytest.mark.parametrize("batch, sequence", [(3, 48), (2, 37), (1, 13)])
@pytest.mark.parametrize("name", CASES)
def test_tiny(bundles, show, name, batch, sequence):
    model, bundle = bundles(name)
    result = compare(model, bundle, batch, sequence)
    show(f"{name}, {batch} x {sequence}: {result}")
    check(result)


@pytest.mark.parametrize("name", CASES)
def test_naive_kernels_agree(bundles, name):
    model, bundle = bundles(name)
    check(compare(model, bundle, 2, 37, reference_kernels=True))


@pytest.mark.parametrize("weights", ["f32", "int4"])
def test_embedding_and_weight_formats(tmp_path, weights):
    model = models.build("qwen2")
    check(compare(model, make_bundle(model, tmp_path, seq_len=24, batch=2, weights=weights), 2, 24))


def test_layers_that_are_not_stored_alike(tmp_path):
    model = models.build("qwen2")
    rules = {"*.embed_tokens": "bf16", "*.layers.0.*": "f32", "*.layers.1.mlp.*": "int8"}
    bundle = make_bundle(model, tmp_path, seq_len=24, batch=2, weights="int4", weights_for=rules)
    stored = {weight["name"]: weight["storage"] for weight in inspect(bundle)["weights"]}
    assert stored["lm_head.weight"] == "bf16" and stored["model.layers.0.mlp.up_proj.weight"] == "f32"
    assert (
        stored["model.layers.1.mlp.up_proj.weight"] == "int8"
        and stored["model.layers.1.input_layernorm.weight"] == "f32"
    )
    assert stored["model.layers.1.self_attn.q_proj.weight"] == "int4"
    check(compare(model, bundle, 2, 24))


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_graph_without_scopes(tmp_path, family):
    model = models.build(family)
    check(compare(model, make_bundle(model, tmp_path, seq_len=40, batch=2, strip_scopes=True), 2, 33))


@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], ["down_proj"], ["o_proj", "gate_proj"]])
def test_subsets_of_the_linear_layers(tmp_path, targets):
    model = models.build("llama")
    bundle = make_bundle(model, tmp_path, seq_len=40, batch=2, lora=mebp.LoRA(rank=3, alpha=7, targets=targets))
    modules = {key.split(".")[-3] for key in mebp.Session(bundle).trainables()}
    assert modules == set(targets)
    check(compare(model, bundle, 2, 29))


@pytest.mark.parametrize("chunk", [1, 7, 16, 48])
@pytest.mark.parametrize(
    "name",
    [
        "llama, biases, one kv head",
        "gpt2",
        "persimmon: a layer norm of each head, squared relu",
        "stablelm: a layer norm for each head",
        "apertus: xIELU",
        ALIBI,
    ],
)
def test_chunks_change_nothing(bundles, tmp_path, name, chunk):
    model, _ = bundles(name)
    bundle = make_bundle(model, tmp_path, seq_len=COMPILED_SEQUENCE, batch=COMPILED_BATCH, chunk_size=chunk)
    for batch, sequence in [(3, 48), (2, 37)]:
        check(compare(model, bundle, batch, sequence))


@pytest.mark.parametrize("spacing", [2, 3, 4, 5, 6, 99])
def test_spacing_changes_no_bit(tmp_path, spacing):
    model = models.build("llama", num_hidden_layers=5)
    ids = models.token_ids(model, 2, 29).numpy()
    results = []
    for every in (1, spacing):
        bundle = make_bundle(model, tmp_path / str(every), seq_len=40, batch=2, checkpoint_spacing=every)
        session = mebp.Session(bundle)
        randomise_adapter(session)
        steps = [session.step(ids, ids).loss for _ in range(2)]
        results.append((session.loss_and_gradients(ids, ids)[1], steps, session.plan["arenas"]["checkpoints"]))
    (expected, steps, all_kept), (gradients, spaced_steps, some_kept) = results
    assert steps == spaced_steps
    assert all(np.array_equal(gradients[key], expected[key]) for key in expected)
    assert some_kept < all_kept if spacing < 5 else some_kept == all_kept


def test_smollm2(smollm2, long_rows, show):
    session = mebp.Session(smollm2.bundle)
    randomise_adapter(session, scale=0.02)
    ids = long_rows[:1, : 256 if SOAK else 64]
    result = compare_gradients(smollm2.bundle, session, smollm2.model, ids, ids)
    show(f"SmolLM2-135M, {ids.size} tokens: {result}")
    assert len(result.bundle.gradients) == 30 * 7 * 2
    check(result)
