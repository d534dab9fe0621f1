# SPDX-License-Identifier: Apache-2.0
"""Numbers of a GGUF file's metadata that are known only once the file is there: their places are written with it."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.extras import need_packages


def set_numbers(file: Path, numbers: Mapping[str, float]) -> None:
    """Sets keys in f32 that `file` has; the rest stays as it is. Raises mebp.Error where it has none of that name."""
    need_packages("writing GGUF", "gguf", "gguf")
    import gguf

    with translate_errors(f"{file}: cannot be written", "choose another place"):
        reader = gguf.GGUFReader(file, "r+")
        for key, value in numbers.items():
            found = reader.fields.get(key)
            if found is None or found.types != [gguf.GGUFValueType.FLOAT32]:
                raise Error(f"{file}: has no number '{key}'; merge it again")
            found.parts[found.data[0]][0] = value
        reader.data.flush()
