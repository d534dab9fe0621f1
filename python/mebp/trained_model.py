# SPDX-License-Identifier: Apache-2.0
"""A model whose own weights a session has trained, as a folder that transformers opens."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error
from mebp.exporter.text_parts import TextPart, config_alone, text_part_named
from mebp.files import check_space, new_folder
from mebp.model_folder import copy_files, model_config
from mebp.tensor_file import each_tensor, write_tensors
from mebp.tensor_names import is_of_model, stored_name

MODEL_FILE = "model.safetensors"
_MARK = {"trained_by": "mebp"}


def is_trained_model(folder: Path) -> bool:
    """Whether a session has written what is there."""
    try:
        with (folder / MODEL_FILE).open("rb") as file:
            return b'"trained_by":"mebp"' in file.read(128)
    except OSError:
        return False


def model_shapes(description: dict, stored: Iterable[tuple[str, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """The shape of the model's own tensor for each weight of a bundle, which stores those of experts as one matrix.
    `stored`: names and shapes as the bundle has them."""
    shapes = zip(description["weights"], stored, strict=True)
    return [tuple(weight.get("shape") or shape) for weight, (_, shape) in shapes]


@dataclass(frozen=True)
class TrainedModel:
    """All weights of a session, those that it trains and the others of its bundle."""

    bundle: Path
    description: dict
    shapes: list[tuple[int, ...]]  # as model_shapes has them
    read: Callable[[int], np.ndarray]  # a weight as it is now, in float32

    @property
    def is_adapted(self) -> bool:
        """An adapter is trained, and no weight."""
        return self.description["model"]["lora"]["rank"] > 0

    def check(self, what: str, advice: str) -> None:
        """Raises mebp.Error, which begins with `what`, where the bundle trains an adapter."""
        if self.is_adapted:
            raise Error(f"{what}: {self.bundle} trains an adapter and no weights of the model; {advice}")

    def check_space(self, output: Path) -> None:
        """Raises mebp.Error where the disk has too little room for it."""
        stored = zip(self._shapes, self._types, strict=True)
        needed = sum(math.prod(shape) * ELEMENT_TYPES[kind].bytes for shape, kind in stored)
        check_space(output.absolute().parent, needed, "the model")

    def write(self, output: Path, replace: bool) -> None:
        """As Session.save_model has it; with `replace`, what is there makes way. One tensor is in memory at a time."""
        self.check_space(output)
        matrices = {kind for shape, kind in zip(self._shapes, self._types, strict=True) if len(shape) > 1}
        config = model_config(self.bundle / "tokenizer" / "config.json", "bf16" if matrices == {"bf16"} else "f32")
        if self._part is not None:
            config = config_alone(config)
        names = list(self._names)
        tensors = (self.read(index) for index, _ in self._weights)
        with new_folder(output, "nothing was, choose another place", replace) as folder:
            copy_files(self.bundle / "tokenizer", folder)
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            shapes, types = (dict(zip(names, each, strict=True)) for each in (self._shapes, self._types))
            write_tensors(folder / MODEL_FILE, shapes, tensors, types, _MARK, "start over with a lower --lr")

    def read_trained(self, folder: Path) -> Iterator[tuple[str, np.ndarray]]:
        """Name and values, in float32, of each trained weight in what `write` has left there, one after another."""
        trained = {tensor["name"] for tensor in self.description["trainables"]}
        names = {name: weight for name, weight in self._names.items() if weight in trained}
        for name, values in each_tensor(folder / MODEL_FILE, "the best model is gone; train again", names):
            yield names[name], values

    @property
    def _part(self) -> TextPart | None:
        return text_part_named(self.description["model"]["text_part"])

    @property
    def _names(self) -> dict[str, str]:
        """In the folder, and in the bundle. What is the text of a model that takes more is a model of its own there."""
        called = self._part.text_name if self._part else str
        return {called(stored_name([weight["name"], *weight["aliases"]])): weight["name"]
                for _, weight in self._weights}  # fmt: skip

    @property
    def _types(self) -> list[str]:
        """Of each weight one that holds it exactly: its own, or f32 where it has codes."""
        return ["bf16" if weight["storage"] == "bf16" else "f32" for _, weight in self._weights]

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [self.shapes[index] for index, _ in self._weights]

    @property
    def _weights(self) -> list[tuple[int, dict]]:
        """Those that are tensors of the model, by their numbers in the bundle."""
        return [(index, each) for index, each in enumerate(self.description["weights"]) if is_of_model(each["name"])]
