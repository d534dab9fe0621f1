# SPDX-License-Identifier: Apache-2.0
"""An export's output folder: everything is made in a stage inside it and moved into place at the end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.files import made_folders, scratch_folder, sync, sync_tree
from mebp.outputs import ONNX, check_output


@dataclass(frozen=True)
class Stage:
    """`folder` holds what will be moved to the output's folder, `scratch` what will be thrown away."""

    folder: Path
    scratch: Path
    onnx: Path


@contextmanager
def staged(path: Path) -> Iterator[Stage]:
    """Yields a stage for the ONNX file `path`; what it holds at the end replaces what is there, the ONNX file last.
    After an error the output's folder is as it was."""
    target = path.parent
    if path.is_dir():
        raise Error(f"{path}: a folder; name the ONNX file to write")
    check_output("-o", path, ONNX, {})
    with (
        translate_errors(f"{target}: cannot be written", "make room there or choose another folder"),
        made_folders(target),
        scratch_folder(target, ".mebp-export-") as root,
    ):
        stage = Stage(root / "output", root / "scratch", root / "output" / path.name)
        stage.folder.mkdir()
        stage.scratch.mkdir()
        yield stage
        _check_weights(stage, target)
        _move(stage, target)


def _check_weights(stage: Stage, target: Path) -> None:
    """Refuses to replace weights that some other model's folder or graph may need."""
    for file in stage.folder.glob("*.safetensors"):
        there = target / file.name
        if not there.exists() or _same(file, there):
            continue
        others = [f.name for f in target.glob("*.onnx") if f.name != stage.onnx.name]
        if others or (target / "config.json").exists() or not (target / stage.onnx.name).exists():
            raise Error(f"{there}: there is another model's file of this name; choose another folder for the export")


def _same(a: Path, b: Path) -> bool:
    if os.path.samefile(a, b):
        return True
    # A copy, where linking was impossible, keeps its source's time.
    return (a.stat().st_size, a.stat().st_mtime_ns) == (b.stat().st_size, b.stat().st_mtime_ns)


def _move(stage: Stage, target: Path) -> None:
    entries = sorted(stage.folder.iterdir(), key=lambda entry: entry == stage.onnx)
    sync_tree(stage.folder)
    for entry in entries:
        there = target / entry.name
        if entry.is_dir() and there.is_dir():
            os.replace(there, stage.scratch / f"older-{entry.name}")
        os.replace(entry, there)
    sync(target)
