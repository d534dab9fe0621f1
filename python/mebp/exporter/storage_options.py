# SPDX-License-Identifier: Apache-2.0
"""mebpc's options that store each layer of a model in its own way."""

import re
from collections.abc import Sequence

_LAYER = re.compile(r"\.[0-9]+\.")


def options_for(storages: Sequence[tuple[str, str]], embedding: str) -> str:
    """mebpc's options for these storages of layers, by transformers' names, and of the embedding."""
    every = [storage for _, storage in storages] or ["int4"]
    most = max(every, key=every.count)
    options = [] if most == "int4" else [f"--weights {most}"]
    if embedding != "int8":
        options.append(f"--embedding-weights {embedding}")
    patterns = _patterns(storages, most)
    if patterns:
        options.append(f"--weights-for '{','.join(patterns)}'")
    return " ".join(options)


def _patterns(storages: Sequence[tuple[str, str]], most: str) -> list[str]:
    """What is not stored as most are, as --weights-for takes it: *.v_proj=int8 where all layers have it so, else each
    by its name."""
    of_end: dict[str, set[str]] = {}
    for name, storage in storages:
        for end in _ends(name):
            of_end.setdefault(end, set()).add(storage)
    found = []
    for name, storage in storages:
        if storage != most:
            is_inner = _LAYER.search(name)
            short = next((end for end in _ends(name) if is_inner and len(of_end[end]) == 1), None)
            found.append(f"*.{short}={storage}" if short else f"{name}={storage}")
    return list(dict.fromkeys(found))


def _ends(name: str) -> list[str]:
    """What stands for a weight of each layer: the ends of its name behind the layer's number, the shortest first."""
    inner = _LAYER.split(name, maxsplit=1)[-1].split(".")
    return [".".join(inner[-count:]) for count in range(1, len(inner) + 1)]
