# SPDX-License-Identifier: Apache-2.0
"""Exports that several tests ask for, made once in a session of tests: tracing takes seconds, copying takes none."""

import atexit
import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry
from transformers import PreTrainedModel

import mebp
from mebp.building import Builder
from mebp.exporter.naming import shared_path

_FOLDER = "MEBP_TEST_EXPORTS"  # of the session: pytest-xdist's workers inherit it
_LARGE = 1 << 26  # bytes; such a file is linked, and no test may change it

# Each export reads the source of all of torch's ONNX functions anew, which is a quarter of its time here.
ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))


def begin_session() -> None:
    """In pytest's first process, before it starts others."""
    if _FOLDER not in os.environ:
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="mebp-exports-")
        atexit.register(shutil.rmtree, os.environ[_FOLDER], ignore_errors=True)


def export(model: PreTrainedModel | str | Path, path: Path, *, seq_len: int, batch: int = 1) -> Path:
    """As mebp.export, but for a folder's weights, which are a copy."""
    if isinstance(model, PreTrainedModel):
        key = _digest(model)
    elif str(model).startswith("packaged:"):
        key = str(model)
    elif Path(model).is_dir():
        key = _digest_of_folder(Path(model))
    else:
        return mebp.export(model, path, seq_len=seq_len, batch=batch)
    name = hashlib.sha256(f"{key} {path.name} {seq_len} {batch}".encode()).hexdigest()
    made = keep(name, lambda folder: mebp.export(model, folder / path.name, seq_len=seq_len, batch=batch))
    copy(made, path.parent)
    if not isinstance(model, PreTrainedModel) and Path(model).is_dir():
        _note_source(path, Path(model))
    return path


def keep(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name, which `make` fills where no test of the session has done so."""
    return keep_in(Path(os.environ[_FOLDER]), name, make)


def keep_in(root: Path, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name in `root`, which `make` fills where nobody has done so."""
    folder, unfinished = root / name, root / f"{name}.unfinished"
    if folder.exists():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed: another process waits for what this one makes
        if not folder.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


def copy(made: Path, folder: Path) -> None:
    """The content of `made`, which may be changed but for large files."""
    shutil.copytree(made, folder, copy_function=_copy_file, dirs_exist_ok=True)


def _copy_file(source: str, target: str) -> None:
    if os.path.getsize(source) < _LARGE:
        shutil.copy2(source, target)
        return
    Path(target).unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _note_source(path: Path, source: Path) -> None:
    """Another folder of the same content may have been exported."""
    graph = onnx.load(path, load_external_data=False)
    (note,) = [entry for entry in graph.metadata_props if entry.key == "mebp.model"]
    note.value = shared_path(source)
    onnx.save(graph, path)


def _digest_of_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(folder)} {file.stat().st_size} ".encode() + file.read_bytes())
    return digest.hexdigest()


def _digest(model: PreTrainedModel) -> str:
    """Of all that an export of it says."""
    described = f"{type(model).__name__} {model.name_or_path} {model.config.to_json_string(use_diff=False)}"
    digest = hashlib.sha256(described.encode())
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


@pytest.fixture
def exported(monkeypatch) -> list[str]:
    """What is exported; in this process, where torch is there already."""
    asked = []

    def export(self, model, onnx, options):
        asked.append(model)
        mebp.export(model, onnx, **options)

    monkeypatch.setattr(Builder, "_export", export)
    return asked
