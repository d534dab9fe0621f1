# SPDX-License-Identifier: Apache-2.0
"""mebp data FILE --model M [--html FILE], and mebp data import FILE|DIR --as ME -o chat.jsonl"""

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from mebp.cli.session import COLUMNS, add_counting
from mebp.compile_options import flag
from mebp.errors import Error
from mebp.outputs import PAGE, check_output
from mebp.words import counted, is_terminal, listed, say, say_in_colour

_IMPORT = "import"
_PRINTED, _ON_PAGE = 10, 100  # samples
_OF_IMPORT = ("learned", "output", "pause", "overwrite")
_FLAGS = ("overwrite", "turn_weights")  # which are False where nobody gives them
_OF_SHOWING = (
    *("model", "html", "samples", "columns", "loss_on", "turn_weights", "empty_thoughts"),
    *("seq_len", "packing", "seed"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "file",
        type=Path,
        metavar="FILE",
        help="the data, as mebp train takes it: what is seen, what counts and what is cut are shown; or import",
    )
    add(
        "export",
        type=Path,
        nargs="?",
        metavar="CHATS",
        help="with import, a file or folder: conversations.json of ChatGPT or Claude, result.json of Telegram, "
        "_chat.txt of WhatsApp",
    )
    _add_showing(parser.add_argument_group("to show data").add_argument)
    _add_import(parser.add_argument_group("to import chats that an app exports").add_argument)


def _add_showing(add: "argparse._ActionsContainer.add_argument") -> None:
    add("--model", metavar="MODEL", help="whose tokens are shown: what mebp train takes, or an adapter's folder")
    add("--html", type=Path, metavar="FILE", help="write a page with the samples in colour")
    add(
        "--samples",
        type=int,
        metavar="N",
        help=f"show the first N samples (default: {_PRINTED}, or with --html {_ON_PAGE})",
    )
    add("--columns", metavar="NAMES", help=COLUMNS)
    add_counting(add)
    add("--seq-len", type=int, metavar="N", help="tokens of a row (default: as compiled, or as mebp train chooses)")
    add(
        "--packing",
        action=argparse.BooleanOptionalAction,
        help="put several samples into a row (default: as mebp train does)",
    )
    add("--seed", type=int, metavar="N", help="seed for which samples share rows (default: 0)")


def _add_import(add: "argparse._ActionsContainer.add_argument") -> None:
    from mebp.data.importing.importing import PAUSE

    add(
        "--as",
        dest="learned",
        metavar="ME",
        help="the person whose turns are learned, by the name in the chats; required for Telegram and WhatsApp; for "
        "ChatGPT and Claude assistant or user (default: assistant)",
    )
    add("-o", "--output", type=Path, metavar="FILE", help="the new file, of JSON lines; required")
    add(
        "--pause",
        type=float,
        metavar="HOURS",
        help="in Telegram and WhatsApp, a conversation ends where nobody writes for so long (default: "
        f"{PAUSE:g} hours)",
    )
    add("--overwrite", action="store_true", help="replace a file that an earlier import wrote")


def run(arguments: argparse.Namespace) -> int:
    imports = str(arguments.file) == _IMPORT
    others, what = (_OF_SHOWING, "to show data") if imports else (_OF_IMPORT, "of mebp data import")
    for name in others:
        value = getattr(arguments, name)
        if value is not None and not (value is False and name in _FLAGS):
            raise Error(f"{'--as' if name == 'learned' else flag(name)} is {what}; leave it out")
    return _import(arguments) if imports else _show(arguments)


def _import(given: argparse.Namespace) -> int:
    from mebp.data.importing import import_chats
    from mebp.data.importing.importing import PAUSE
    from mebp.exporter.packaged import NAMES, SCHEME

    if given.export is None or given.output is None:
        missing = "a file or folder of chats" if given.export is None else "-o FILE, the new file"
        raise Error(f"mebp data import needs {missing}; see mebp data --help")
    pause = PAUSE if given.pause is None else given.pause
    found = import_chats(given.export, given.output, given.learned, pause, given.overwrite)
    say(f"{given.output}: {counted(found.conversations, 'conversation')} of {listed(found.apps, 'and')}")
    say(f"learned: {counted(found.turns, 'turn')} of {found.learned}; what others write is context")
    if left_out := found.said_left_out():
        say(f"left out: {', '.join(left_out)}")
    train = ["mebp", "train", f"{SCHEME}{NAMES[0]}", "--data", str(given.output), "--adapter-out", "adapter"]
    say(f"next: {shlex.join(train)}")
    return 0


def _show(given: argparse.Namespace) -> int:
    if given.export is not None:
        raise Error(f"'{given.export}' is one argument too many; see mebp data --help")
    if given.model is None:
        raise Error("mebp data FILE needs --model MODEL, whose tokens are shown; see mebp data --help")
    if given.samples is not None and given.samples < 1:
        raise Error(f"--samples is {given.samples}; give at least 1")
    if given.seed is not None and given.seed < 0:
        raise Error(f"--seed is {given.seed}; give at least 0")
    from mebp.cli.session import data_of
    from mebp.data.loading import check_counting
    from mebp.data.showing.lines import facts
    from mebp.data.showing.opening import Asked, opened
    from mebp.data.showing.samples import Samples
    from mebp.data.splits import find_splits

    given.data = given.file
    source = data_of(given)
    if not source.hub and source.path.is_dir():
        source = replace(source, path=find_splits(source.path)["data"])
    if given.html is not None:
        check_output("--html", given.html, PAGE, {"the data": source.path})
    check_counting([source])
    with opened(given.model, source, Asked(given.seq_len, given.packing, given.seed or 0)) as found:
        samples = Samples(source, found.tokenizer, found.length, found.sharing)
        lines = [f"{source.asked}, as {given.model} reads it", *facts(samples, found), *samples.data.notes]
        shown = samples.first(given.samples or (_PRINTED if given.html is None else _ON_PAGE))
    if len(shown) < len(samples):
        lines.append(f"the first {len(shown):,} are shown; --samples shows more")
    if given.html is None:
        _print(lines, shown)
        return 0
    from mebp.data.showing.page import write_page

    write_page(given.html, f"What counts in {source.short.asked}", lines, shown)
    say("\n".join(lines[:-1] if len(shown) < len(samples) else lines))
    say(f"{given.html}: {counted(len(shown), 'sample')}; open it in a browser")
    return 0


def _print(lines: list[str], shown: list) -> None:
    from mebp.data.showing.lines import headline, legend, written

    in_colour = is_terminal(sys.stdout) and "NO_COLOR" not in os.environ
    say("\n".join(lines))
    say_in_colour(legend(in_colour))
    for sample in shown:
        say(f"\n{headline(sample)}")
        say_in_colour(written(sample, in_colour))
