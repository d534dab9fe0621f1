# SPDX-License-Identifier: Apache-2.0
"""What mebpc loses of numbers that it stores in fewer bits (compiler/emit/Quantize.cpp)."""

import numpy as np

_GROUP = 32  # columns with one scale; the last one of a row may be shorter


def loss_of(numbers: np.ndarray, storage: str) -> float:
    """Of f32 [..., width] as int4 or int8, the relative error by their L2 norm; 0 where every number is kept."""
    width = numbers.shape[-1]
    rows = numbers.reshape(-1, width)
    if beyond := -width % _GROUP:
        rows = np.pad(rows, ((0, 0), (0, beyond)), mode="edge")  # which changes no group's ends
    groups = rows.reshape(-1, _GROUP)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if storage == "int8":
            scales = _half(np.abs(groups).max(axis=1) / np.float32(127))
            minima, most = np.float32(-128) * scales, 255
        else:
            lowest = groups.min(axis=1)
            scales = _half((groups.max(axis=1) - lowest) / np.float32(15))
            minima, most = _half(lowest), 15
        codes = np.where(scales[:, None] == 0, 0, np.rint((groups - minima[:, None]) / scales[:, None]).clip(0, most))
        lost = groups - (codes.astype(np.float32) * scales[:, None] + minima[:, None])
    error = float(np.linalg.norm(lost.reshape(rows.shape)[:, :width]))
    norm = float(np.linalg.norm(rows[:, :width]))
    return error / norm if norm else error


def _half(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.float16).astype(np.float32)
