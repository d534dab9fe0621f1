# SPDX-License-Identifier: Apache-2.0
"""mebp adapter convert DIR --to mlx|gguf|peft -o OUT"""

import argparse
import shlex
from pathlib import Path

from mebp.files import user_path
from mebp.words import counted, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["convert"], help="write the adapter in the form of another tool")
    parser.add_argument(
        "adapter", type=Path, metavar="DIR", help="the adapter: a folder of PEFT or MLX-LM, or a GGUF file of llama.cpp"
    )
    parser.add_argument(
        "--to", required=True, metavar="mlx|gguf|peft", help="the form to write: MLX-LM's, llama.cpp's or PEFT's"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the new folder, or for gguf the new file"
    )
    parser.add_argument(
        "--base",
        metavar="MODEL",
        help="the base model's folder, bundle, GGUF file, ollama:NAME or hub id, with @REVISION, too (default: what "
        "the adapter says, if it is here)",
    )
    parser.add_argument(
        "--class",
        dest="for_class",
        metavar="text|multimodal",
        help="of a model that takes more than text, the class that the adapter is loaded on (default: as it is)",
    )


def run(arguments: argparse.Namespace) -> int:
    from mebp.adapters.conversion import FORMS, convert_adapter

    found = convert_adapter(arguments.adapter, arguments.output, arguments.to, arguments.base, arguments.for_class)
    say(
        f"{arguments.output}: {counted(found.layers, 'layer')} of rank {found.rank}, "
        f"from {FORMS[found.form]}'s form to {FORMS[arguments.to]}'s"
    )
    if arguments.to == "gguf":
        say(_how_to_load(arguments.base, arguments.output))
    return 0


def _how_to_load(base: str | None, adapter: Path) -> str:
    """The command of llama.cpp, with the base model's GGUF file where that was given."""
    from mebp.building import is_bundle
    from mebp.exporter.finding import find_here

    found = find_here(base) if base is not None and not is_bundle(user_path(base)) else None
    place = found.place if found and found.is_gguf else None
    command = shlex.join(["llama-server", "-m", str(place or "BASE.gguf"), "--lora", str(adapter)])
    missing = "" if place else "; BASE.gguf is the model that it was trained on"
    return f"llama.cpp loads it with: {command}{missing}"
