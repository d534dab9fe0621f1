# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle's files are those that mebpc wrote."""

import os

from mebp.extension import load_runtime
from mebp.files import user_path
from mebp.numbers import checked


@checked
def verify_files(bundle: str | os.PathLike[str]) -> int:
    """Reads every weight and compares all of them with the checksum in the bundle's program.

    Opening a bundle checks its other files, and of the weights the size alone: reading gigabytes at every start would
    take longer than opening. Returns the bytes of the weights' file. Raises mebp.Error where a file is damaged.
    """
    opened = load_runtime().Bundle(os.fspath(user_path(bundle)))
    opened.check_weights()
    return opened.info()["weights_bytes"]
