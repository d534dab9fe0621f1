# SPDX-License-Identifier: Apache-2.0
"""Which tensors a model has, and of which shapes, by its keys: what is missing or too much is named before an export
meets it under another name."""

from collections.abc import Mapping

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, ROPE_FACTORS
from mebp.gguf.architecture import Architecture
from mebp.gguf.container import Container


def check_tensors(container: Container, architecture: Architecture, config: Mapping) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors; raises mebp.Error, with the tensor, where the file has others than `config`, which its
    keys make, asks for."""
    expected = expected_tensors(architecture, config)
    found = {tensor.name: tensor.shape for tensor in container.tensors}
    for name, shape in expected.items():
        if name not in found:
            raise Error(f"{container.path}: lacks the tensor '{name}'; download it again")
        # A matrix of one row is a vector in some files.
        if found[name] != shape and (1, *found[name]) != shape:
            raise Error(f"{container.path}: tensor '{name}' has the shape {list(found[name])}, and by the file's keys "
                        f"it is {list(shape)}; download it again")  # fmt: skip
    for name in found:
        if name not in expected and name != ROPE_FACTORS:
            raise Error(f"{container.path}: has the tensor '{name}', which is not known in architecture "
                        f"'{architecture.name}'; {READ_ADVICE}")  # fmt: skip
    return expected


def expected_tensors(architecture: Architecture, config: Mapping) -> dict[str, tuple[int, ...]]:
    """The shape of each, by a checked config.json."""
    extents, biased = architecture.extents(config), architecture.biased(config)
    expected: dict[str, tuple[int, ...]] = {}
    for before, weight in architecture.weights_of(config):
        if weight.ours == "lm_head" and config["tie_word_embeddings"]:
            continue
        for name, letters in zip(weight.names, weight.shapes, strict=True):
            shape = tuple(extents[letter] for letter in letters)
            expected[before + name + ("" if weight.whole else ".weight")] = shape
            if name in biased:
                expected[f"{before}{name}.bias"] = shape[:1]
    return expected
