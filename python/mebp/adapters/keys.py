# SPDX-License-Identifier: Apache-2.0
"""Names of the tensors in PEFT's form: an adapter's own name in them is read, and odd prefixes are refused."""

import json
import re
import shutil
import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.exporter.checkpoint import read_header
from mebp.exporter.text_parts import text_part_of_names
from mebp.files import open_regular
from mebp.tensor_names import PEFT_PREFIX

TENSORS = "adapter_model.safetensors"
_ADVICE = "save the adapter again"
_NAMED = re.compile(r"(.+\.lora_[AB])\.([^.]+)\.weight")  # PEFT's keys within a model, as get_peft_model makes them
# What models are put into: PEFT's, torch.compile's, and those of parallel training.
_WRAPPERS = re.compile(
    r"(?<![^.])(?:base_model\.model|_orig_mod|module|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
_BARE = {"layers.": "model.", "h.": "transformer."}  # how modules of a base model without its head begin


def plain_names(file: Path, names: Iterable[str]) -> dict[str, str]:
    """Each name without the adapter's in it: lora_A.weight for lora_A.default.weight.

    Raises mebp.Error where the names are of several adapters.
    """
    found, adapters = {}, {}
    for name in names:
        match = _NAMED.fullmatch(name)
        found[name] = f"{match[1]}.weight" if match else name
        if match or ".lora_" in name:
            adapters.setdefault(match and match[2], name)
    if len(adapters) > 1:
        first, second = list(adapters.values())[:2]
        raise Error(f"{file}: has '{first}' and '{second}', which are of two adapters; save one of them alone")
    return found


def check_prefix(file: Path, name: str, plain: str) -> None:
    """Raises mebp.Error where a tensor's name has an odd prefix, or none. `plain` is what plain_names has for it."""
    module = _WRAPPERS.sub("", plain)
    before = next((prefix for begin, prefix in _BARE.items() if module.startswith(begin)), "")
    right = f"{PEFT_PREFIX}{before}{module}"
    if plain != right and ".lora_" in name:
        _refuse(file, name, right)


@contextmanager
def loadable(folder: Path, expected: Collection[str]) -> Iterator[Path]:
    """An adapter's folder as the runtime reads it: itself, or a copy where its tensors have the adapter's name in them.

    expected: the names that the bundle has. Raises mebp.Error for a prefix that is not the bundle's.
    """
    file = folder / TENSORS
    try:
        names = plain_names(file, read_header(file)) if file.is_file() else {}
    except Error:
        names = {}  # whatever is wrong, the runtime says it
    odd = next((name for name, plain in names.items() if ".lora_" in plain and plain not in expected), None)
    if odd is not None:
        module = _WRAPPERS.sub("", names[odd])
        _check_class(folder, names.values(), expected)
        right = [name for name in expected if name.endswith(f".{module}")]
        if len(right) == 1:
            _refuse(file, odd, right[0])
    if all(name == plain for name, plain in names.items()):
        yield folder
        return
    with tempfile.TemporaryDirectory() as copy:
        with translate_errors(f"{folder}: cannot be copied to {tempfile.gettempdir()}", "make room there"):
            for other in folder.iterdir():
                if other.suffix in (".json", ".safetensors") and other != file:
                    (Path(copy) / other.name).symlink_to(other.resolve())
            _copy_renamed(file, names, Path(copy) / TENSORS)
        try:
            yield Path(copy)
        except Error as error:
            raise Error(str(error).replace(copy, str(folder))) from None


def _check_class(folder: Path, names: Iterable[str], expected: Iterable[str]) -> None:
    """Raises mebp.Error where an adapter is for another class of the bundle's model: that of its text, or the whole."""
    own, theirs = text_part_of_names(expected), text_part_of_names(names)
    if own != theirs:
        kind = "multimodal" if own else "text"
        raise Error(
            f"{folder}: is for the class of this model that takes {'more than text' if theirs else 'text alone'}, and "
            f"the bundle is of the other; mebp adapter convert {folder} --to peft --class {kind} -o DIR makes it fit"
        )


def _copy_renamed(file: Path, names: dict[str, str], copy: Path) -> None:
    with open_regular(file, _ADVICE) as source, copy.open("wb") as target:
        (size,) = struct.unpack("<Q", source.read(8))
        header = json.loads(source.read(size))
        text = json.dumps({names.get(name, name): entry for name, entry in header.items()}).encode()
        text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
        target.write(struct.pack("<Q", len(text)) + text)
        shutil.copyfileobj(source, target)


def _refuse(file: Path, name: str, right: str) -> None:
    raise Error(f"{file}: has '{name}', which should be '{right}'; rename its tensors so, or save the adapter from the "
                "model that PEFT wraps")  # fmt: skip
