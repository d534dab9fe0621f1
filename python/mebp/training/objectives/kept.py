# SPDX-License-Identifier: Apache-2.0
"""What is kept of completions between a rollout's updates, in the state of a run, and sent to other processes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from mebp.training.objectives.continuation import Continuation


@dataclass
class Kept(Continuation):
    """What all updates of a rollout have in common of a completion. Fields are numbers, None, or arrays of [tokens]:
    int32 of ids, bool of a mask, float32 of all others."""

    _TYPES: ClassVar[Mapping[str, type]] = {"prompt": np.int32, "completion": np.int32, "mask": bool}

    def saved(self) -> dict:
        """As JSON has it."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def restored(cls, saved: object) -> "Kept":
        """Raises ValueError or TypeError for what saved() never is: a state may be a stranger's."""
        if not isinstance(saved, dict):
            raise ValueError("a completion has names")
        kinds = {each.name: each.type for each in fields(cls)}
        restored = cls(**{name: cls._value(name, kinds.get(name), value) for name, value in saved.items()})
        if not (restored.prompt.size and restored.completion.size):
            raise ValueError("a prompt and its completion have tokens")
        for name, value in vars(restored).items():
            is_beside = isinstance(value, np.ndarray) and name not in ("prompt", "completion")
            if is_beside and len(value) != restored.tokens_of(name):
                raise ValueError(f"{name} is of other tokens")
        return restored

    def packed(self) -> np.ndarray:
        """float64, as other processes get it: of each field its number, or its length (-1: None) and values."""
        parts: list[object] = []
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                parts += [[len(value)], value]
            else:
                parts.append([-1 if value is None else value])
        return np.concatenate(parts, dtype=np.float64)

    @classmethod
    def unpacked(cls, values: np.ndarray) -> "Kept":
        """What packed() was. Raises ValueError or TypeError for what it never is."""
        saved: dict[str, object] = {}
        for each in fields(cls):
            if not len(values):
                raise ValueError(f"{each.name} is missing")
            first, values = values[0], values[1:]
            if each.type in (int, float):
                saved[each.name] = each.type(first)
            elif first < 0:
                saved[each.name] = None
            else:
                stored = cls._TYPES.get(each.name, np.float32)
                saved[each.name], values = values[: int(first)].astype(stored).tolist(), values[int(first) :]
        return cls.restored(saved)

    def tokens_of(self, name: str) -> int:
        """How many an array is of, beside those of ids."""
        return self.length

    @classmethod
    def _value(cls, name: str, kind: object, value: object) -> object:
        if kind in (int, float):
            if type(value) is not int and not (kind is float and type(value) is float):
                raise ValueError(f"{name} is a number")
            return value
        if value is None and kind != np.ndarray:
            return None
        stored = cls._TYPES.get(name, np.float32)
        known = {np.int32: (int,), bool: (bool,), np.float32: (int, float)}[stored]
        if not isinstance(value, list) or not all(type(each) in known for each in value):
            raise ValueError(f"{name} is a list of numbers")
        return np.array(value, stored)
