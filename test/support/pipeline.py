# SPDX-License-Identifier: Apache-2.0
"""From a transformers model to a bundle, and a bundle's gradients against the reference's."""

import copy
from pathlib import Path

import numpy as np
import onnx
import torch
from transformers import PreTrainedModel

import mebp
from mebp.expert_adapters import adapted_parameters
from mebp.inspect import inspect
from mebp.remote_adapters import factors_of
from mebp.verification.comparison import Comparison, Errors, Gradients
from mebp.verification.inputs import token_indices
from mebp.verification.reference import Reference
from support.exports import export


def make_bundle(
    model: PreTrainedModel | str | Path,
    folder: Path,
    *,
    seq_len: int,
    batch: int = 1,
    strip_scopes: bool = False,
    weights: str = "int4",
    precision: str = "f32",
    **options: object,
) -> Path:
    """Exports and compiles; `strip_scopes` drops all that the exporter notes about where a node came from."""
    exported = folder / "model.onnx"
    # A graph is compiled for any sizes. With the same ones in all of these, tests share more exports.
    shared = isinstance(model, PreTrainedModel) and seq_len <= 64 and batch <= 4
    export(model, exported, **({"seq_len": 24, "batch": 2} if shared else {"seq_len": seq_len, "batch": batch}))
    if strip_scopes:
        graph = onnx.load(exported, load_external_data=False)
        for index, node in enumerate(graph.graph.node):
            del node.metadata_props[:]
            node.name = f"n{index}"
        onnx.save(graph, exported)
    bundle = folder / "model.mebp"
    mebp.compile(exported, bundle, seq_len=seq_len, batch=batch, weights=weights, precision=precision, **options)
    return bundle


def reference_for(
    bundle: Path, session: mebp.Session, model: PreTrainedModel, dtype: torch.dtype, **options: object
) -> Reference:
    """torch with this session's weights and adapter; options as Reference's."""
    description = inspect(bundle)
    alpha, factors = description["model"]["lora"]["alpha"], factors_of(description, session.frozen_factors())
    given = (session.base_weights(), session.trainables(), alpha, dtype)
    options["tokens"] = token_indices(description)
    options["router_loss"] = description["model"]["router_aux_loss_coef"]
    parameters = adapted_parameters(description)
    return Reference(copy.deepcopy(model), *given, factors=factors, parameters=parameters, **options)


def compare_gradients(
    bundle: Path,
    session: mebp.Session,
    model: PreTrainedModel,
    ids: np.ndarray,
    labels: np.ndarray,
    dtype: torch.dtype = torch.float32,
    exact: tuple[float, dict[str, np.ndarray]] | None = None,
    **options: object,
) -> Comparison:
    """`dtype`, and options as Reference's: what torch computes in. `exact`: what float64 gives, where it is known."""
    if exact is None:
        exact = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, labels)
    torchs = reference_for(bundle, session, model, dtype, **options).loss_and_gradients(ids, labels)
    found, torchs, exact = (Gradients(*one) for one in (session.loss_and_gradients(ids, labels), torchs, exact))
    precision = {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]
    return Comparison(Errors.of(found, exact), Errors.of(torchs, exact), precision)


def check(result: Comparison) -> None:
    """Whether it agrees, and in bf16 at the worst gradient, too, to a tenth of torch's error."""
    assert result.agrees, f"{'; '.join(map(str, result.beyond[:8]))}; {result}"
    assert result.precision == "f32" or result.bundle.worst <= 1.1 * result.torch.worst, str(result)
