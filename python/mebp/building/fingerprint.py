# SPDX-License-Identifier: Apache-2.0
"""What a bundle is made of, as a short name that another content, option or program does not have.

Settings count by their content. Weights may have many gigabytes, and reading them all would take longer than many a
run: a file of weights counts by its size, its time, and pieces from all over it, the first and the last among them.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mebp.exporter.checkpoint import weight_files
from mebp.exporter.finding import Found
from mebp.exporter.tokenizer import tokenizer_files
from mebp.files import open_regular, read_bytes, user_path
from mebp.tools import cache_folder, find_tool
from mebp.version import __version__

_ADVICE = "download the model again"
_PIECES, _PIECE = 256, 4096
_EXPORTING = ("torch", "transformers", "onnx-ir", "onnxscript")  # what the graph depends on
_DIGITS = 16


def export_fingerprint(model: Found, settings: Path, options: Mapping[str, object]) -> str:
    """Of the model's files, of where they are (a bundle tells it), the options of mebp export, and what exports.

    settings: the folder with config.json and the tokenizer.
    """
    parts = [model.name, model.origin, _json(options), *map(_version, _EXPORTING), *_own_files()]
    weights = [model.place] if model.is_gguf else weight_files(model.place)
    return _digest([*parts, *_settings(settings), *map(_weights, weights)])


def bundle_fingerprint(export: str, options: Mapping[str, object]) -> str:
    """Of the export, the options of mebpc, mebpc itself, and what of the machine its plan depends on."""
    compiler, rates = Path(find_tool("mebpc")), sorted(cache_folder().glob("rates*.json"))
    named = user_path(str(options.get("rates") or "none"))
    if named.is_file():
        rates.append(named)
    machine = [str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else str(os.cpu_count())]
    return _digest([export, _json(options), *map(_status, [compiler, *rates]), *machine])


def _settings(folder: Path) -> Iterator[str]:
    for name in sorted(tokenizer_files(folder)):
        yield f"{name} {hashlib.sha256(read_bytes(folder / name, _ADVICE)).hexdigest()}"


def _weights(file: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(file, _ADVICE) as content:
        size = os.fstat(content.fileno()).st_size
        for index in range(_PIECES):
            content.seek(max(0, size - _PIECE) * index // (_PIECES - 1))
            digest.update(content.read(_PIECE))
    return f"{file.name} {_status(file)} {digest.hexdigest()}"


def _own_files() -> list[str]:
    """The exporter's code: between two releases the version does not tell."""
    package = Path(__file__).parents[1]
    files = sorted(file for folder in ("exporter", "gguf") for file in (package / folder).glob("*.py"))
    return [__version__, hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _status(file: Path) -> str:
    status = file.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _json(options: Mapping[str, object]) -> str:
    return json.dumps(options, sort_keys=True)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
