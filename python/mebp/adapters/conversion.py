# SPDX-License-Identifier: Apache-2.0
"""An adapter in one form, written in another."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mebp.adapters import gguf_file, mlx, peft
from mebp.adapters.adapter import Adapter
from mebp.adapters.base import AskedBase, Base, OwnBase, StatedBase
from mebp.adapters.origin import find_origin
from mebp.errors import Error
from mebp.exporter.text_parts import TextPart, text_config, text_part_of
from mebp.files import new_folder, own_file, read_json, replaced_file, user_path
from mebp.gguf.adapter_places import HEAD, TIED
from mebp.gguf.architectures import ARCHITECTURES
from mebp.gguf.container import is_gguf
from mebp.numbers import checked
from mebp.words import say

CLASSES = TEXT, MULTIMODAL = "text", "multimodal"  # of a model that takes more than text
FORMS = {"mlx": "MLX-LM", "gguf": "llama.cpp", "peft": "PEFT"}
_LATENT = "kv_b_proj"
_CUT_BY_MLX = ("deepseek_v3", "glm4_moe_lite")  # model types of which MLX-LM loads that as two layers
_NOTHING = "nothing was; choose another place"


@dataclass(frozen=True)
class Conversion:
    """`form` is the key of FORMS that was read; layers and rank are those of the adapter."""

    form: str
    layers: int
    rank: int


@checked
def convert_adapter(
    adapter: str | os.PathLike[str],
    output: str | os.PathLike[str],
    to: str,
    base: str | os.PathLike[str] | None = None,
    for_class: str | None = None,
) -> Conversion:
    """Writes `adapter`, which is in any of the forms, as the new file or folder `output` in the form `to` of FORMS.

    base: the base model's folder, bundle, GGUF file, ollama:NAME or hub id, OWNER/NAME@REVISION too; None for what
        this machine has trained it on, and of any other adapter for what it says, which has to be here: nothing is
        fetched because an adapter names it. llama.cpp's form needs its config.json, for the number of
        heads; an adapted head needs it, to know whether it is tied to the embedding.
    for_class: of a model that takes more than text, for PEFT or MLX-LM: whether what is written is for the class that
    takes "text" alone, or for the "multimodal" one, which needs config.json, too; None for what the adapter is for.

    Raises mebp.Error, with nothing written, where the adapter cannot be read, `to` cannot hold it, or `output` exists.
    """
    source, output = user_path(adapter), user_path(output)
    if to not in FORMS:
        raise Error(f"--to {to}: no such form of an adapter; there is {', '.join(FORMS)}")
    if for_class is not None and for_class not in CLASSES:
        raise Error(f"--class {for_class}: no such class of a model; there is {' and '.join(CLASSES)}")
    if for_class is not None and to == "gguf":
        raise Error("--class is for PEFT and MLX-LM; llama.cpp has one name for both; leave it out")
    form = _form_of(source)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise Error(f"{output}: exists already; choose another -o")
    if to == "gguf" and output.is_dir():
        raise Error(f"{output}: is a folder; name the GGUF file to write")
    words = ["mebp", "adapter", "convert", str(adapter), "--to", to, "-o", str(output)]
    named = AskedBase(base) if base is not None else None
    origin = find_origin(source) if source.is_dir() and named is None else None

    def known_by(stated: str | None) -> Base:
        if origin is not None:
            return OwnBase(stated, source, shlex.join(words), origin)
        return named or StatedBase(stated, source, shlex.join(words))

    found, known = _read(source, form, known_by)
    if to != "gguf":
        found = replace(found, part=_part_of(found, known, form, to, for_class))
    if to == "gguf" or HEAD in found.layers:
        _check_head(found, text_config(known.config))
    if to == "mlx" and any(name.endswith(_LATENT) for name in found.layers):
        _check_latent(found, known.config)
    config = known.config if to == "gguf" else {}
    found = replace(found, base=known.name)
    if to == "gguf":
        with replaced_file(output, _NOTHING) as file:
            gguf_file.write_gguf(found, config, file)
    else:
        with new_folder(output, _NOTHING) as folder:
            if to == "mlx":
                mlx.write_mlx(found, folder, _last_layers(found, known))
            else:
                peft.write_peft(found, folder, _is_transposed(found))
    return Conversion(form, len(found.layers), found.rank)


def _last_layers(found: Adapter, base: Base) -> int:
    """From the first that is adapted on; -1, all, where that is the model's first, or nobody says how many it has."""
    first = min(found.numbers, default=0)
    if first == 0:
        return -1
    try:
        config = text_config(base.config)
        count = config.get("num_hidden_layers", config.get("n_layer"))
    except Error as error:
        say(f"{found.source}: MLX-LM adapts all layers, of which those before layer {first} add nothing: {error}")
        return -1
    return count - first if type(count) is int and count > max(found.numbers) else -1


def _read(source: Path, form: str, base: Callable[[str | None], Base]) -> tuple[Adapter, Base]:
    """The adapter, and its base model; `base` makes that of what the adapter says."""
    if form == "gguf":  # which says nothing
        known = base(None)
        return gguf_file.read_gguf(source, lambda: known.config), known
    found = (mlx.read_mlx if form == "mlx" else peft.read_peft)(source)
    return found, base(found.base)


def _form_of(source: Path) -> str:
    if is_gguf(source):
        return "gguf"
    if not source.exists():
        raise Error(f"{source}: no such adapter; give its folder or GGUF file")
    if source.is_file():
        raise Error(f"{source}: is not an adapter; give its folder or GGUF file")
    if not (source / peft.CONFIG).is_file():
        raise Error(f"{source}: is not an adapter, for it has no {peft.CONFIG}; give an adapter's folder or GGUF file")
    return "peft" if "peft_type" in read_json(own_file(source / peft.CONFIG), "save the adapter again") else "mlx"


def _part_of(found: Adapter, base: Base, form: str, to: str, for_class: str | None) -> TextPart | None:
    """For which class of the model the adapter is written. MLX-LM's names say that it takes more than text, and not
    where transformers has the text."""
    is_whole = found.part is not None if for_class is None else for_class == MULTIMODAL
    if not is_whole or (found.part is not None and form == to and for_class is None):
        return found.part if is_whole else None
    part = text_part_of(base.config)
    if part is None:
        kind = base.config.get("model_type")
        raise Error(f"{found.source}: its base model, of type '{kind}', takes text alone; leave out --class multimodal")
    return part


def _check_head(adapter: Adapter, config: Mapping) -> None:
    architecture = ARCHITECTURES.get(str(config.get("model_type")))
    if HEAD in adapter.layers and config.get("tie_word_embeddings", architecture is not None and architecture.tied):
        raise Error(f"{adapter.source}: adapts '{HEAD}', {TIED}")


def _check_latent(adapter: Adapter, config: Mapping) -> None:
    if (model_type := config.get("model_type")) in _CUT_BY_MLX:
        name = next(name for name in adapter.layers if name.endswith(_LATENT))
        raise Error(
            f"{adapter.source}: adapts '{name}', which MLX-LM cuts in two where it loads a {model_type}; merge it with "
            "mebp merge, or train the adapter without it"
        )


def _is_transposed(adapter: Adapter) -> bool:
    return any(architecture.is_turned(name) for architecture in ARCHITECTURES.values() for name in adapter.layers)
