# SPDX-License-Identifier: Apache-2.0
"""A bundle's gradients against those of transformers and PEFT in true float64.

inputs      the tokens and the adapter that they are computed on
model       the transformers model that was exported
reference   that model with the bundle's weights and adapter
remote_adapters  those between a frozen A and B, in torch
projection  what a bundle that projects its gradients makes of whole ones
comparison  how far both are from float64, and how far they may be
files       whether the bundle's files are whole
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.extras import need_packages
from mebp.files import user_path
from mebp.numbers import checked, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mebp.session import Session
    from mebp.verification.comparison import Comparison

__all__ = ["verify"]

_Value = TypeVar("_Value")


@checked
def verify(
    bundle: str | os.PathLike[str],
    reference: str | os.PathLike[str] | None = None,
    *,
    adapter: str | os.PathLike[str] | None = None,
    seq_len: int | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> Comparison:
    """Computes the loss and all gradients of one random batch here and in transformers and PEFT, and compares them.

    torch has the bundle's dequantised weights and its adapter, in true float64, and again in the bundle's own type: by
    what it loses there, our errors are judged (Comparison.beyond). Gradients that the bundle projects (GaLore) are
    compared with torch's whole ones, times the projector that was found for this batch.

    reference: the exported model as its Hugging Face folder, or a hub id ("OWNER/NAME@REVISION", too) that is in the
        cache, for nothing is fetched. torch builds its config.json; its weights are not read. None for the config.json
        that travels in the bundle.
    adapter: a PEFT folder; None for the bundle's own, whose B, which is zero, becomes random.
    seq_len: tokens of a row; None for as many as the bundle was compiled for.
    device, threads: as mebp.Session has them.

    Returns the errors; `agrees` says whether all are small enough, `beyond` which are not. Raises mebp.Error where an
    argument is invalid, the reference is another model, or the memory is too small for it in float64.
    """
    bundle = user_path(bundle)
    _check_whole(bundle)
    need_packages("verify", "verify", "torch", "transformers", "peft")
    import torch

    from mebp.expert_adapters import adapted_parameters, unreached
    from mebp.exporter.offline import offline
    from mebp.exporter.quiet import quiet
    from mebp.exporter.text_parts import text_part_named
    from mebp.inspect import inspect
    from mebp.remote_adapters import factors_of
    from mebp.verification.comparison import Comparison, Errors, Gradients
    from mebp.verification.inputs import random_batch, randomise_adapter, token_indices
    from mebp.verification.model import build_model, check_memory, read_config
    from mebp.verification.projection import project_all, read_projectors
    from mebp.verification.reference import Reference

    description = inspect(bundle)
    precision, alpha = description["model"]["activation"], description["model"]["lora"]["alpha"]
    own_type = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
    projects = any(trained["gradient_rank"] for trained in description["trainables"])
    session = _start(bundle, device, threads, projects)
    sequence = session.max_sequence if seq_len is None else whole_number("--seq-len", seq_len, at_least=2)
    if adapter is None:
        randomise_adapter(session, scale=0.02)  # of a size that training gives
    else:
        session.load_adapter(adapter)
    parameters = sum(weight["rows"] * weight["columns"] for weight in description["weights"])

    with quiet(), offline():
        config = read_config(bundle, reference, session.task, session.classes)
        part = text_part_named(description["model"]["text_part"])

        called = part.text_name if part else str  # torch has the class of the text alone

        def by_model(values: Mapping[str, _Value]) -> dict[str, _Value]:
            return {called(name): value for name, value in values.items()}

        ids, labels = random_batch(session, sequence, padding=getattr(config, "pad_token_id", None))
        check_memory(bundle, parameters, ids.size * session.vocabulary)
        loss, gradients = session.loss_and_gradients(ids, labels)
        found = Gradients(loss, by_model(gradients))
        projectors = by_model(read_projectors(session)) if projects else {}
        weights, trainables = by_model(session.base_weights()), by_model(session.trainables())
        factors = by_model(factors_of(description, session.frozen_factors()))

        def compute(dtype: torch.dtype, adapter_dtype: torch.dtype) -> Gradients:
            made = Reference(
                build_model(config, session.task),
                weights,
                trainables,
                alpha,
                dtype,
                adapter_dtype=adapter_dtype,
                factors=factors,
                parameters=by_model({key: called(name) for key, name in adapted_parameters(description).items()}),
                tokens=token_indices(description),
                router_loss=description["model"]["router_aux_loss_coef"],
            )
            loss, torchs = made.loss_and_gradients(ids, labels)
            return Gradients(loss, project_all(torchs, projectors))

        exact = compute(torch.float64, torch.float64)
        torchs = compute(own_type, torch.float32)  # adapters are float32, as PEFT has them
    missed = unreached(gradients, description)
    note = missed and f"no token of this batch went to {missed}, so the gradients of their adapters are zero"
    return Comparison(Errors.of(found, exact), Errors.of(torchs, exact), precision, len(projectors), note)


def _check_whole(bundle: Path) -> None:
    if load_runtime().Bundle(os.fspath(bundle)).info()["half"]:
        raise Error(
            f"{bundle}: is one half of a model, and the reference needs the weights of both; verify the bundle that "
            "mebpc writes without --split, which computes the same bits"
        )


def _start(bundle: Path, device: str, threads: int | None, projects: bool) -> Session:
    """Gradients are the same for every optimizer, and SGD has no state; one that projects them has its own bundles."""
    from mebp.session import Session

    return Session(bundle, device, threads, optimizer=None if projects else "sgd", momentum=0.0)
