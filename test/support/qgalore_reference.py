# SPDX-License-Identifier: Apache-2.0
"""Q-GaLore's update in numpy, by its published equations and this project's generator of random numbers."""

from dataclasses import dataclass

import numpy as np

GROUP, BLOCK = 32, 256
_GOLDEN, _STREAM = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


def random_bits(seed: int, stream: int, index: np.ndarray | int) -> np.ndarray:
    """SplitMix64's finaliser over a counter."""
    with np.errstate(over="ignore"):
        seed, stream, index = np.uint64(seed), np.uint64(stream), np.asarray(index, np.uint64)
        state = (seed * _GOLDEN) ^ ((stream + np.uint64(1)) * _STREAM)
        state = state + (index + np.uint64(1)) * _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def draws(seed: int, step: int, trainable: int, shape: tuple[int, int]) -> np.ndarray:
    """In [0, 1), one for each element, before update number step + 1."""
    of_tensor = random_bits(random_bits(seed, 2, step), trainable, 0)
    return (random_bits(of_tensor, 0, np.arange(np.prod(shape))) >> np.uint64(40)).reshape(shape) * 2.0**-24


def dynamic_map(signed: bool) -> np.ndarray:
    """The 256 values of bitsandbytes' create_dynamic_map, in ascending order."""
    values = [0.0, 1.0]
    for i in range(7):
        parts = 2**i if signed else 2 ** (i + 1)
        edges = np.linspace(0.1, 1, parts + 1)
        means = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (i - 6)
        values += [*means, *(-means if signed else [])]
    return np.sort(np.array(values))


@dataclass
class Coded:
    """Eight bits of a moment."""

    codes: np.ndarray
    absmax: np.ndarray
    values: np.ndarray  # of the codes

    def decode(self) -> np.ndarray:
        scale = np.repeat(self.absmax.astype(np.float64), BLOCK)[: self.codes.size]
        return self.values[self.codes.reshape(-1)].reshape(self.codes.shape) * scale.reshape(self.codes.shape)


def adam_in_subspace(low, mean, square, step, lr, betas=(0.9, 0.999), eps=1e-8):
    """The moments after update `step`, counted from 1, and what Adam adds."""
    mean = betas[0] * mean + (1 - betas[0]) * low
    square = betas[1] * square + (1 - betas[1]) * low**2
    unbiased = mean / (1 - betas[0] ** step), square / (1 - betas[1] ** step)
    return mean, square, -lr * unbiased[0] / (np.sqrt(unbiased[1]) + eps)


def grid(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale and minimum of each group of 32 along a row: f16 that cover its numbers with 256 codes."""
    begins = np.arange(0, values.shape[1], GROUP)
    low, high = np.minimum.reduceat(values, begins, 1), np.maximum.reduceat(values, begins, 1)
    minimum = low.astype(np.float16)
    minimum = np.where(minimum.astype(np.float64) > low, np.nextafter(minimum, np.float16(-np.inf)), minimum)
    exact = (high - minimum.astype(np.float64)) / 255
    scale = exact.astype(np.float16)
    return np.where(scale.astype(np.float64) < exact, np.nextafter(scale, np.float16(np.inf)), scale), minimum


def positions(values: np.ndarray, scale: np.ndarray, minimum: np.ndarray) -> np.ndarray:
    """Where numbers lie among their codes."""
    scale, minimum = (np.repeat(each.astype(np.float64), GROUP, 1)[:, : values.shape[1]] for each in (scale, minimum))
    return (values - minimum) / scale
