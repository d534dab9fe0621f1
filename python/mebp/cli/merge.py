# SPDX-License-Identifier: Apache-2.0
"""mebp merge MODEL --adapter DIR -o OUT"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.session import add_adapter, add_compiling, add_data, add_model, data_of, use
from mebp.errors import Error
from mebp.gguf import GGUF_SUFFIX, GGUF_TYPES
from mebp.serving import OLDEST
from mebp.waiting import stages
from mebp.words import say

if TYPE_CHECKING:
    from mebp.merging import MergeResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from mebp.merging.served import ONTO, STORED

    add_model(parser, also="; of a bundle: the model that it was made of, as it was published")
    add_adapter(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="OUT",
        help="the folder to write for transformers, new or empty; or, where it ends in .gguf, the file for llama.cpp",
    )
    parser.add_argument(
        "--dtype",
        choices=list(GGUF_TYPES),
        default="f32",
        help="type of the merged weights; those with a q are for .gguf (default: f32, which rounds nothing)",
    )
    parser.add_argument(
        "--onto",
        choices=ONTO,
        default=STORED,
        help="add the adapter to the weights as the bundle stores them, or as they were published; auto measures both, "
        "and takes the one with the lower loss (default: stored)",
    )
    add_data(
        parser,
        "data to measure on: the stored and the published weights with the adapter, what was written, and what fewer "
        "bits lose (samples that the trained model writes)",
        required=False,
    )
    parser.add_argument("--no-measure", action="store_true", help="merge only: do not measure that")
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)


def check_adapter(arguments: argparse.Namespace) -> None:
    """Raises mebp.Error where there is no adapter to merge."""
    from mebp.building.using import is_adapter

    if arguments.adapter is None and not is_adapter(arguments.bundle):
        raise Error(f"{arguments.bundle}: is not an adapter's folder; give one, or --adapter DIR, the adapter to merge")


def run(arguments: argparse.Namespace) -> int:
    from mebp.building import is_bundle
    from mebp.building.using import is_adapter
    from mebp.files import user_path
    from mebp.merging import check_lacking, write_merged
    from mebp.merging.reporting import numbers_to_come, report_losses
    from mebp.merging.served import AUTO, STORED, opened

    check_adapter(arguments)
    if arguments.no_measure and arguments.data:
        raise Error("--data is for what --no-measure leaves out; give one of them")
    if arguments.no_measure and arguments.onto == AUTO:
        raise Error("--onto auto measures, and --no-measure leaves that out; give --onto stored or published")
    if arguments.data and not arguments.data.is_file():
        raise Error(f"--data {arguments.data}: no such file; check the path")
    if arguments.columns and not arguments.data:
        raise Error("--columns names those of --data; give that, too")
    data = data_of(arguments) if arguments.data else None
    base, of_adapter = arguments.base, is_adapter(arguments.bundle)
    if not of_adapter:
        arguments.base = None  # the model that has the rest, or the published weights
    use(arguments)
    if of_adapter and base is not None and is_bundle(user_path(base)):
        base = None
    is_gguf = arguments.output.suffix == GGUF_SUFFIX
    measures = not arguments.no_measure and not (is_gguf and _is_exact(arguments))
    if base is not None and not of_adapter and not measures and arguments.onto == STORED:
        check_lacking(arguments.bundle, arguments.output)
    with stages("merging") as stage, opened(arguments.bundle, arguments.adapter, data, base, stage) as served:
        numbers = numbers_to_come() if measures and is_gguf else {}
        result = write_merged(served, arguments.output, arguments.dtype, base, arguments.onto, numbers)
        _say_merged(arguments, result)
        if measures:
            report_losses(served, arguments.output, arguments.dtype, result)
    return 0


def _is_exact(arguments: argparse.Namespace) -> bool:
    """Whether a file computes what the session does, and nobody asks for more."""
    return arguments.dtype == "f32" and arguments.data is None and arguments.onto == "stored"


def _say_merged(arguments: argparse.Namespace, result: "MergeResult") -> None:
    if arguments.onto == "auto":
        say(f"--onto auto: {result.onto}, for these weights with the adapter have the lower loss")
    name, most = max(result.changes.items(), key=lambda change: change[1])
    weights = "dequantised weights" if result.onto == "stored" else "published weights"
    say(
        f"the adapter changes {len(result.changes)} of {result.tensors} tensors of the bundle's {weights}, "
        f"by up to {most:.2%} of their norm ({name})"
    )
    if arguments.dtype != "f32":
        name, most = max(result.roundings.items(), key=lambda rounding: rounding[1])
        say(f"rounding to {arguments.dtype} changes a tensor by up to {most:.2%} of its norm ({name})")
    what = "a file for llama.cpp" if arguments.output.suffix == GGUF_SUFFIX else "a folder for transformers"
    say(f"{arguments.output}: {result.bytes / 1e6:,.1f} MB, {what}")
    _say_beside(result, arguments.output)


def say_notes(result: "MergeResult", what: str) -> None:
    """What there is to know of a GGUF file to serve it."""
    if result.text_alone:
        say(f"{what}: has the text part alone; what the model takes besides, such as images, is not in it")
    for note in result.modelfile.notes if result.modelfile else ():
        say(f"mebp: note: {what}: {note}", error=True)


def _say_beside(result: "MergeResult", output: Path) -> None:
    say_notes(result, f"{output}")
    if result.modelfile:
        say(f"{result.modelfile.path}: for Ollama {OLDEST} or later, as in {result.modelfile.command}")
