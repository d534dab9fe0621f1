# SPDX-License-Identifier: Apache-2.0
"""What mebpc loses of numbers that it stores in int8 (compiler/emit/Quantize.cpp)."""

import numpy as np

_GROUP = 32  # columns with one scale; the last one of a row may be shorter


def loss_as_int8(numbers: np.ndarray) -> float:
    """Of f32 [..., width] the relative error by their L2 norm; 0 where every number is kept."""
    width = numbers.shape[-1]
    rows = numbers.reshape(-1, width)
    if beyond := -width % _GROUP:
        rows = np.pad(rows, ((0, 0), (0, beyond)), mode="edge")  # which changes no group's largest number
    groups = rows.reshape(-1, _GROUP)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scales = (np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)).astype(np.float16).astype(np.float32)
        codes = np.where(scales == 0, 0, np.rint(groups / scales).clip(-128, 127)).astype(np.float32)
        lost = groups - codes * scales
    error = float(np.linalg.norm(lost.reshape(rows.shape)[:, :width]))
    norm = float(np.linalg.norm(rows[:, :width]))
    return error / norm if norm else error
