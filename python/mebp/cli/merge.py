# SPDX-License-Identifier: Apache-2.0
"""mebp merge MODEL --adapter DIR -o OUT"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.session import add_adapter, add_compiling, add_data, add_model, data_of, use
from mebp.errors import Error
from mebp.gguf import GGUF_SUFFIX, GGUF_TYPES
from mebp.waiting import stages
from mebp.words import say

if TYPE_CHECKING:
    from mebp.recompiling import Recompiled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, also="; of a bundle that is the text of a model which takes more: that model")
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
    add_data(
        parser,
        "data to measure on what fewer bits lose: those of compiling the merged model again, or of a GGUF file "
        "(samples that the trained model writes)",
        required=False,
    )
    parser.add_argument("--no-measure", action="store_true", help="merge only: do not measure that")
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)


def run(arguments: argparse.Namespace) -> int:
    import mebp
    from mebp.building.using import is_adapter

    if arguments.adapter is None and not is_adapter(arguments.bundle):
        raise Error(f"{arguments.bundle}: is not an adapter's folder; give one, or --adapter DIR, the adapter to merge")
    if arguments.no_measure and arguments.data:
        raise Error("--data is for what --no-measure leaves out; give one of them")
    if arguments.data and not arguments.data.is_file():
        raise Error(f"--data {arguments.data}: no such file; check the path")
    if arguments.columns and not arguments.data:
        raise Error("--columns names those of --data; give that, too")
    arguments.data = data_of(arguments) if arguments.data else None
    base = arguments.base
    if not is_adapter(arguments.bundle):
        arguments.base = None  # of a text part: the model that has the rest
    use(arguments)
    base = base if arguments.base is None else None
    result = mebp.merge(arguments.bundle, arguments.adapter, arguments.output, arguments.dtype, base)
    name, most = max(result.changes.items(), key=lambda change: change[1])
    say(
        f"the adapter changes {len(result.changes)} of {result.tensors} tensors of the bundle's dequantised weights, "
        f"by up to {most:.2%} of their norm ({name})"
    )
    if arguments.dtype != "f32":
        name, most = max(result.roundings.items(), key=lambda rounding: rounding[1])
        say(f"rounding to {arguments.dtype} changes a tensor by up to {most:.2%} of its norm ({name})")
    is_gguf = arguments.output.suffix == GGUF_SUFFIX
    what = "a file for llama.cpp" if is_gguf else "a folder for transformers"
    say(f"{arguments.output}: {result.bytes / 1e6:,.1f} MB, {what}")
    if not arguments.no_measure and not (is_gguf and arguments.dtype == "f32"):
        _measure(arguments, is_gguf)
    return 0


def _measure(arguments: argparse.Namespace, is_gguf: bool) -> None:
    from mebp.recompiling import measure_gguf, recompile

    what = "what the file loses" if is_gguf else "what compiling it again loses"
    given = arguments.bundle, arguments.adapter, arguments.output, arguments.data
    try:
        with stages("measuring") as stage:
            found = measure_gguf(*given, stage) if is_gguf else recompile(*given, stage)
    except Error as error:  # what was asked for is there
        say(f"{what} was not measured: {error}")
        return
    if found is not None:
        say(_report_gguf(found, arguments.dtype) if is_gguf else _report(found))


def _report(found: "Recompiled") -> str:
    losses = ", ".join(f"{loss:.4f} as {storage}" for storage, loss in found.merged.items())
    lines = [f"{_compared(found)}; merged and compiled again: {losses}"]
    own, advised = next(iter(found.merged)), found.advised
    again = f"compiled again with --weights {own}, it keeps"
    if found.gain <= 0:
        lines.append(_NO_GAIN)
    elif advised == own:
        lines.append(f"{again} the training")
    else:
        share = max(found.kept(own), 0)
        other = f"compile with --weights {advised or 'f32'}, or leave it unmerged"
        lines.append(f"{again} {share:.0%} of what was gained; {other}")
    return "\n".join(lines)


def _report_gguf(found: "Recompiled", dtype: str) -> str:
    (loss,) = found.merged.values()
    lines = [f"{_compared(found)}; of the file: {loss:.4f}"]
    if found.gain <= 0:
        lines.append(_NO_GAIN)
    elif found.advised:
        lines.append(f"as {dtype} it keeps the training")
    else:
        share = max(found.kept("f32"), 0)
        lines.append(f"as {dtype} it keeps {share:.0%} of what was gained; take a --dtype of more bits, or leave it "
                     "unmerged: mebp adapter convert --to gguf")  # fmt: skip
    return "\n".join(lines)


_NO_GAIN = "the adapter lowers no loss there, so there is nothing to lose; give other --data"


def _compared(found: "Recompiled") -> str:
    return f"loss on {found.data}: {found.base:.4f} without the adapter, {found.trained:.4f} with it"
