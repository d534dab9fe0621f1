# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle's files are those that mebpc wrote."""

import os

from mebp.extension import load_runtime
from mebp.files import user_path
from mebp.numbers import checked


@checked
def verify_files(bundle: str | os.PathLike[str]) -> int:
    """Reads every weight and the tokenizer's files, and compares them with the checksums in the bundle.

    Opening a bundle checks its other files, and of the weights the size alone: reading gigabytes at every start would
    take longer than opening. Returns the bytes of the weights' file. Raises mebp.Error where a file is damaged. A
    bundle from before there were checksums of the tokenizer's files says nothing of these.
    """
    path, runtime = os.fspath(user_path(bundle)), load_runtime()
    runtime.validate_bundle(path)
    return runtime.Bundle(path).info()["weights_bytes"]
