# SPDX-License-Identifier: Apache-2.0
"""mebp data import FILE|DIR --as ME -o chat.jsonl"""

import argparse
import shlex
from pathlib import Path

from mebp.words import counted, listed, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from mebp.data.importing.importing import PAUSE

    add = parser.add_argument
    add("action", choices=["import"], help="write chats that an app exports as conversations to train on")
    add(
        "export",
        type=Path,
        metavar="FILE|DIR",
        help="conversations.json of ChatGPT or Claude, result.json of Telegram, _chat.txt of WhatsApp, or a folder of "
        "such files",
    )
    add(
        "--as",
        dest="learned",
        metavar="ME",
        help="the person whose turns are learned, by the name in the chats; required for Telegram and WhatsApp; for "
        "ChatGPT and Claude assistant or user (default: assistant)",
    )
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="the new file, of JSON lines")
    add(
        "--pause",
        type=float,
        default=PAUSE,
        metavar="HOURS",
        help="in Telegram and WhatsApp, a conversation ends where nobody writes for so long (default: "
        f"{PAUSE:g} hours)",
    )
    add("--overwrite", action="store_true", help="replace a file that an earlier import wrote")


def run(arguments: argparse.Namespace) -> int:
    from mebp.data.importing import import_chats
    from mebp.exporter.packaged import NAMES, SCHEME

    given = arguments
    found = import_chats(given.export, given.output, given.learned, given.pause, given.overwrite)
    say(f"{given.output}: {counted(found.conversations, 'conversation')} of {listed(found.apps, 'and')}")
    say(f"learned: {counted(found.turns, 'turn')} of {found.learned}; what others write is context")
    if left_out := found.said_left_out():
        say(f"left out: {', '.join(left_out)}")
    train = ["mebp", "train", f"{SCHEME}{NAMES[0]}", "--data", str(given.output), "--adapter-out", "adapter"]
    say(f"next: {shlex.join(train)}")
    return 0
