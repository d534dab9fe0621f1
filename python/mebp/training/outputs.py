# SPDX-License-Identifier: Apache-2.0
"""What a run writes when it ends must be writable when it begins: hours lie between."""

from pathlib import Path

from mebp.errors import Error
from mebp.files import make_writable_parent
from mebp.training.options import TrainingOptions

_PICTURES = (".png", ".svg", ".pdf", ".jpg")


def check_outputs(options: TrainingOptions) -> None:
    """Makes the folders that the adapter and the picture go to; raises mebp.Error where they could not be written."""
    if options.plot:
        if options.plot.suffix not in _PICTURES:
            raise Error(f"--plot {options.plot}: is no kind of picture; let it end in {', '.join(_PICTURES)}")
        _check("--plot", options.plot, is_taken=options.plot.is_dir())
    if options.adapter_out:
        folder = options.adapter_out
        _check("--adapter-out", folder, is_taken=folder.exists() and not folder.is_dir())


def _check(option: str, path: Path, is_taken: bool) -> None:
    if is_taken:
        raise Error(f"{option} {path}: something else is there; choose another")
    make_writable_parent(path, "choose another", f"{option} {path}: {path.absolute().parent}")
