# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md's definition of which numbers a step's dropout zeroes, in numpy."""

from pathlib import Path

import numpy as np
import torch

from mebp.inspect import inspect
from mebp.verification.reference import Reference


def random_bits(seed: object, stream: object, index: object) -> np.ndarray:
    """format/random.h's, of numbers or arrays."""
    seed, stream, index = (np.asarray(each, np.uint64) for each in (seed, stream, index))
    with np.errstate(over="ignore"):
        state = seed * np.uint64(0x9E3779B97F4A7C15) ^ (stream + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
        state = state + (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return state ^ state >> np.uint64(31)


def mask(
    p: float, shape: tuple[int, int, int], *, seed: int, step: int, block: int, salt: int, first: int = 0
) -> np.ndarray:
    """[samples, positions, columns], True where a number is kept; `first`: the step's samples before these."""
    samples, positions, columns = shape
    of_block = random_bits(random_bits(seed, 3, step), 0, block)
    of_samples = random_bits(of_block, salt, first + np.arange(samples))[:, None, None]
    pairs = random_bits(of_samples, np.arange(positions)[:, None], np.arange((columns + 1) // 2))
    halves = np.stack([pairs & np.uint64(0xFFFFFFFF), pairs >> np.uint64(32)], axis=-1).reshape(samples, positions, -1)
    return halves[:, :, :columns] >= np.uint64(np.float64(np.float32(p)) * 2**32)


class _Masked(torch.nn.Module):
    def __init__(self, kept: np.ndarray, p: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.factor = torch.from_numpy(kept / (1 - p)).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def put_masks(reference: Reference, bundle: Path, batch: int, sequence: int, step: int, first: int = 0) -> None:
    """Replaces the dropout of each of PEFT's layers by a product with the bundle's mask of that step.

    Adapters have their numbers in the order of the bundle's trainables, and blocks begin with the embedding.
    """
    description = inspect(bundle)
    lora = description["model"]["lora"]
    suffix, prefix = ".lora_A.weight", "base_model.model."
    layers = [one["name"][len(prefix) : -len(suffix)] for one in description["trainables"] if suffix in one["name"]]
    numbers = {}
    for name in layers:
        module = reference.model.get_submodule(prefix + name)
        block = 1 + next(int(part) for part in name.split(".") if part.isdigit())
        salt = numbers[block] = numbers.get(block, -1) + 1
        weight = module.lora_A["default"].weight
        shape = batch, sequence, weight.shape[1]
        kept = mask(lora["dropout"], shape, seed=lora["seed"], step=step, block=block, salt=salt, first=first)
        module.lora_dropout["default"] = _Masked(kept, lora["dropout"], weight.dtype)
