# SPDX-License-Identifier: Apache-2.0
"""Graphs of other exporters: what torch.onnx writes of a transformers model, whose logits the bundle then has."""

import numpy as np
import pytest
import torch

import mebp
from mebp import extras
from mebp.inspect import inspect
from support import models

SEQUENCE, BATCH = 16, 2
INPUTS = ("input_ids", "attention_mask", "position_ids")


class Reading(torch.nn.Module):
    """A model that reads the first `count` of INPUTS and gives its logits."""

    def __init__(self, model, count):
        super().__init__()
        self.model, self.count = model, count

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        given = dict(zip(INPUTS, (input_ids, attention_mask, position_ids), strict=True))
        return self.model(**dict(list(given.items())[: self.count]), use_cache=False).logits


def write(model, path, count, attention, **options):
    """The graph, by torch's exporter; with the names of symbolic sizes where there are any."""
    model.set_attn_implementation(attention)
    ids = models.token_ids(model, BATCH, SEQUENCE)
    given = (ids, torch.ones_like(ids), torch.arange(SEQUENCE).expand(BATCH, -1))[:count]
    names = {"input_names": list(INPUTS[:count]), "output_names": ["logits"]}
    torch.onnx.export(Reading(model, count).eval(), given, path, verbose=False, **names, **options)
    return path


LAYERS = {
    "llama": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    + ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    "gpt2": ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"),
}
SYMBOLIC = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
BY_TORCHSCRIPT = {"dynamo": False, "opset_version": 18}
BY_DYNAMO = {"dynamo": True, "opset_version": 18}


def symbolic(count, options):
    if options["dynamo"]:
        return {"dynamic_shapes": dict.fromkeys(INPUTS[:count], SYMBOLIC)}
    return {"dynamic_axes": {name: {0: "batch", 1: "sequence"} for name in (*INPUTS[:count], "logits")}}


@pytest.mark.parametrize(
    ("family", "count", "attention", "options"),
    [
        ("llama", 1, "sdpa", BY_DYNAMO),
        ("llama", 3, "eager", BY_DYNAMO),
        ("llama", 2, "sdpa", {"dynamo": True, "opset_version": 23}),
        ("llama", 2, "sdpa", BY_TORCHSCRIPT),
        ("gpt2", 2, "eager", BY_DYNAMO),
        ("gpt2", 3, "sdpa", BY_TORCHSCRIPT),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_logits(tmp_path, family, count, attention, options):
    if (attention, options) == ("sdpa", BY_TORCHSCRIPT) and extras.is_older("transformers", "5.18"):
        pytest.skip("transformers 5.8 traces no attention mask of sdpa: it takes the length for a tensor")
    model = models.build(family)
    graph = write(model, tmp_path / "model.onnx", count, attention, **options, **symbolic(count, options))
    # Twice as long as the graph was traced at.
    bundle = tmp_path / "model.mebp"
    mebp.compile(graph, bundle, seq_len=2 * SEQUENCE, batch=3, weights="f32", precision="f32", rates="none")
    ids = models.token_ids(model, 3, 2 * SEQUENCE)
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits.numpy()
    found = mebp.Session(bundle).logits(ids.numpy())
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()
    # By the modules' names, though the exporter has transposed the weights and named them otherwise.
    adapted = {each["name"].removesuffix(".lora_A.weight") for each in inspect(bundle)["trainables"][::2]}
    named = [f"base_model.model.{name}" for name, _ in Reading(model, 1).named_modules()]
    assert adapted == {name for name in named if name.endswith(LAYERS[family])}


@pytest.mark.filterwarnings("ignore")
def test_sizes_that_are_given(tmp_path):
    model = models.build("llama")
    graph = write(model, tmp_path / "model.onnx", 2, "sdpa", **BY_DYNAMO, optimize=False)
    mebp.compile(graph, tmp_path / "model.mebp", weights="f32", precision="f32", rates="none")
    ids = models.token_ids(model, BATCH, SEQUENCE)
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits.numpy()
    found = mebp.Session(tmp_path / "model.mebp").logits(ids.numpy())
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()
