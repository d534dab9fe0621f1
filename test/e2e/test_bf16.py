# SPDX-License-Identifier: Apache-2.0
"""bf16 activations: against true float64 they lose no more than torch's bfloat16 does."""

import numpy as np
import pytest
import torch

import mebp
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import check, compare_gradients, make_bundle, reference_for
from support.soak import SOAK

# Torch rounds weights to bfloat16 as well. With weights that are bfloat16 already it has only activations to lose by,
# as we do; and PEFT keeps adapters in float32 or, without autocast_adapter_dtype, in the model's type.
ADAPTERS = {"f32 adapter": torch.float32, "bf16 adapter": torch.bfloat16}


def random_configuration(seed: int) -> tuple[str, dict]:
    """A family and sizes, drawn by the seed."""
    draw = np.random.default_rng(seed)
    kv_heads, head_dim = int(draw.integers(1, 4)), 2 * int(draw.integers(6, 25))
    heads = kv_heads * int(draw.integers(1, 4))
    family = str(draw.choice(["llama", "qwen2", "qwen3", "gpt2"]))
    layers = int(draw.integers(2, 6))
    if family == "gpt2":
        return family, {"n_embd": heads * head_dim, "n_head": heads, "n_layer": layers}
    return family, {
        "hidden_size": int(draw.integers(40, 200)),
        "intermediate_size": int(draw.integers(60, 400)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "num_hidden_layers": layers,
        "tie_word_embeddings": bool(draw.integers(2)),
    }


def compare(bundle, model, ids, labels, scale=0.05, **session_options):
    session = mebp.Session(bundle, **session_options)
    randomise_adapter(session, scale=scale)
    exact = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, labels)
    return {
        name: compare_gradients(bundle, session, model, ids, labels, torch.bfloat16, exact, adapter_dtype=dtype)
        for name, dtype in ADAPTERS.items()
    }


@pytest.mark.parametrize("weights", ["bf16", "int4"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_configuration(tmp_path, show, seed, weights):
    family, sizes = random_configuration(seed)
    model = models.build(family, seed=seed, **sizes)
    bundle = make_bundle(model, tmp_path, seq_len=64, batch=2, weights=weights, precision="bf16")
    ids = models.token_ids(model, 2, 61, seed=seed).numpy()
    for name, result in compare(bundle, model, ids, ids).items():
        show(f"bf16, seed {seed}, {family}, weights {weights}, {name}: {result}")
        check(result)


@pytest.mark.parametrize("chunk", [7, 16])
def test_chunks_lose_no_more(tmp_path, chunk):
    model = models.build("qwen2")
    bundle = make_bundle(model, tmp_path, seq_len=48, batch=2, weights="bf16", precision="bf16", chunk_size=chunk)
    ids = models.token_ids(model, 2, 41).numpy()
    for result in compare(bundle, model, ids, ids).values():
        check(result)


def test_naive_kernels_lose_no_more(tmp_path):
    model = models.build("llama")
    bundle = make_bundle(model, tmp_path, seq_len=48, batch=2, weights="bf16", precision="bf16")
    ids = models.token_ids(model, 2, 41).numpy()
    for result in compare(bundle, model, ids, ids, reference_kernels=True).values():
        check(result)


def test_logits_are_torchs_to_bf16(tmp_path):
    model = models.build("llama")
    bundle = make_bundle(model, tmp_path, seq_len=40, batch=2, weights="bf16", precision="bf16")
    session = mebp.Session(bundle)
    ids = models.token_ids(model, 2, 33).numpy()
    exact = reference_for(bundle, session, model, torch.float64).logits(ids)
    error = np.linalg.norm(session.logits(ids) - exact) / np.linalg.norm(exact)
    assert 1e-5 < error < 2e-2, error


def test_smollm2(smollm2, tmp_path, long_rows, show):
    bundle = tmp_path / "bf16.mebp"
    mebp.compile(smollm2.folder / "model.onnx", bundle, seq_len=256, weights="int4", precision="bf16")
    ids = long_rows[:1, : 256 if SOAK else 32]
    for name, result in compare(bundle, smollm2.model, ids, ids, scale=0.02).items():
        show(f"bf16, SmolLM2-135M int4, {ids.size} tokens, {name}: {result}")
        assert result.agrees, f"{'; '.join(map(str, result.beyond))}; {result}"
