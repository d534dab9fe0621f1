# SPDX-License-Identifier: Apache-2.0
"""Gradients of a bundle that projects them: whole ones are projected as the session projected its own, and compared."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mebp.inspect import inspect
from mebp.session import Session

_SUFFIX, _CODES = "/projector", "/projector.codes"  # Q-GaLore's have four bits


def read_projectors(session: Session) -> dict[str, np.ndarray]:
    """As the session has them by now, by the parameter's name: [rank, columns] on the right, [rows, rank] on the left.

    They come by way of a saved state, in the folder for temporary files.
    """
    described = inspect(session.path)["trainables"]
    ranks = {each["name"]: (each["gradient_rank"], each["rows"], each["columns"]) for each in described}
    with tempfile.TemporaryDirectory() as folder:
        session.save_state(folder)
        (newest,) = (path for path in Path(folder).glob("state.*") if "previous" not in path.name)
        tensors = load_file(newest)
    found = {name.removesuffix(_SUFFIX): values for name, values in tensors.items() if name.endswith(_SUFFIX)}
    for name, codes in tensors.items():
        if not name.endswith(_CODES):
            continue
        key = name.removesuffix(_CODES)
        scales, minima = (tensors[f"{key}{_SUFFIX}.{part}"] for part in ("scales", "minima"))
        rank, rows, columns = ranks[key]
        width = columns if rows >= columns else rank
        found[key] = decode(np.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1), scales, minima)[:, :width]
    return found


def decode(codes: np.ndarray, scales: np.ndarray, minima: np.ndarray) -> np.ndarray:
    """The numbers of rows of codes, in groups of 32 with a scale and a minimum each."""
    groups = codes.reshape(*scales.shape, -1).astype(np.float32)
    return (scales[..., None].astype(np.float32) * groups + minima[..., None].astype(np.float32)).reshape(codes.shape)


def project(gradient: np.ndarray, projector: np.ndarray) -> np.ndarray:
    """Onto the matrix's smaller side, in float64: dW Qᵀ where it has as many rows as columns or more, else Pᵀ dW."""
    rows, columns = gradient.shape
    gradient, projector = gradient.astype(np.float64), projector.astype(np.float64)
    return gradient @ projector.T if rows >= columns else projector.T @ gradient


def project_all(gradients: Mapping[str, np.ndarray], projectors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those without a projector stay whole."""
    return {key: project(each, projectors[key]) if key in projectors else each for key, each in gradients.items()}
