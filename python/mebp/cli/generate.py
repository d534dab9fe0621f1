# SPDX-License-Identifier: Apache-2.0
"""mebp generate MODEL --prompt TEXT"""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from mebp.cli.connection import add_connection
from mebp.cli.sampling import add_sampling, check_sampling, note_empty, note_passes, sampling
from mebp.cli.session import add_adapter, add_compiling, add_machine, add_model, open_session, use
from mebp.errors import Error
from mebp.words import answer, counted, is_terminal, say

if TYPE_CHECKING:
    from mebp.chat import Chat
    from mebp.session import Session
    from mebp.tokenizer import Tokenizer

_DEFAULT_NEW_TOKENS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--prompt",
        action="append",
        required=True,
        metavar="TEXT",
        help="text to continue, or - to read it from standard input; repeat for several prompts",
    )
    parser.add_argument(
        "--chat", action="store_true", help="send the prompt as a user's message, in the model's chat template"
    )
    parser.add_argument(
        "--system", metavar="TEXT", help="with --chat: the system message (default: the template's own)"
    )
    add_adapter(parser)
    parser.add_argument(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help=f"generate at most N tokens (default: {_DEFAULT_NEW_TOKENS}, or what fits)",
    )
    add_sampling(parser)
    parser.add_argument(
        "--samples",
        type=int,
        default=1,
        metavar="N",
        help="print N answers to each prompt, each drawn anew (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each prompt")
    add_machine(parser)
    add_connection(parser)
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)


def run(arguments: argparse.Namespace) -> int:
    if arguments.samples < 1:
        raise Error(f"--samples {arguments.samples}: give at least 1")
    if arguments.system is not None and not arguments.chat:
        raise Error("--system needs --chat; a plain prompt has no system message")

    check_sampling(arguments)
    from mebp.tokenizer import Tokenizer

    use(arguments)
    tokenizer = Tokenizer(arguments.bundle)
    chat = _make_chat(tokenizer, arguments.system) if arguments.chat else None
    session = open_session(arguments, generates=True)
    # All are checked before the first is answered.
    prompts = [_prompt(given, tokenizer, chat, session) for given in arguments.prompt]
    stop = chat.stop_tokens() if chat else tokenizer.stop_tokens
    for number, (text, ids) in enumerate(prompts):
        if not arguments.json and len(prompts) > 1:
            say("\n" * bool(number) + f"> {text.strip()}")
        if arguments.samples == 1:
            _answer(session, tokenizer, text, ids, stop, arguments)
        else:
            _samples(session, tokenizer, text, ids, stop, arguments)
    return 0


def _make_chat(tokenizer: "Tokenizer", system: str | None) -> "Chat":
    from mebp.chat import Chat  # jinja2, which a plain prompt does not need

    return Chat(tokenizer, None if system is None else _utf8("--system", os.fsencode(system)))


def _prompt(given: str, tokenizer: "Tokenizer", chat: "Chat | None", session: "Session") -> tuple[str, list[int]]:
    source = "standard input" if given == "-" else "--prompt"
    text = _utf8(source, sys.stdin.buffer.read() if given == "-" else os.fsencode(given))
    text = text.strip() if chat else text
    if not text:
        raise Error(f"{source} is empty; give some text")
    ids = tokenizer.encode(chat.prompt(text)) if chat else tokenizer.encode_document(text)
    if len(ids) >= session.max_positions:
        option = "--generate-len" if session.generates else "--seq-len"
        raise Error(
            f'{source} "{_beginning(text)}" has {len(ids)} tokens and the bundle is compiled for sequences of '
            f"{session.max_positions}; shorten it or compile with a longer {option}"
        )
    return text, ids


def _utf8(source: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Error(f"{source} is not UTF-8 at byte {error.start}; convert it") from error


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 24 else f"{words[:24]}..."


def _count(session: "Session", prompt: list[int], arguments: argparse.Namespace) -> int:
    """How many tokens an answer may have."""
    count, left = arguments.max_new_tokens, session.max_positions - len(prompt)
    if count is not None and count > left:
        say(
            f"mebp: note: up to {counted(left, 'new token')}, not {count:,}: the prompt has {len(prompt)}, and the "
            f"bundle is compiled for sequences of {session.max_positions}",
            error=True,
        )
    return min(_DEFAULT_NEW_TOKENS if count is None else count, left)


def _answer(
    session: "Session",
    tokenizer: "Tokenizer",
    text: str,
    prompt: list[int],
    ends: set[int],
    arguments: argparse.Namespace,
) -> None:
    from mebp.streaming import TextStream

    streams = is_terminal(sys.stdout) and not arguments.json
    stream = TextStream(tokenizer.decode, arguments.stop)
    pieces: list[str] = []

    def show(tokens: object) -> None:
        pieces.append(stream.add(int(tokens[0])))
        if streams:
            answer(pieces[-1], end="")

    count = _count(session, prompt, arguments)
    source = session.keys_and_values() if arguments.drafts and session.generates else None
    try:
        ids = session.generate(
            [prompt], max_new_tokens=count, eos_token_id=ends, callback=show, source=source, **sampling(arguments)
        )
    except KeyboardInterrupt:
        if streams:
            say()  # what is there of the answer stays, on a line of its own
        raise
    pieces.append(stream.end())
    tokens = ids[0, len(prompt) :].tolist()
    if streams:
        answer(pieces[-1])
        _note_empty("".join(pieces), tokens, stream.has_stopped, ends, arguments)
    else:
        _print(text, "".join(pieces), tokens, stream.has_stopped, ends, arguments)
    note_passes(source)


def _samples(
    session: "Session",
    tokenizer: "Tokenizer",
    text: str,
    prompt: list[int],
    ends: set[int],
    arguments: argparse.Namespace,
) -> None:
    """As many side by side as the bundle was compiled for, each with draws of its own."""
    from mebp.streaming import TextStream

    count = _count(session, prompt, arguments)
    options = sampling(arguments)
    for first in range(0, arguments.samples, session.max_batch):
        rows = min(session.max_batch, arguments.samples - first)
        options["seed"] = arguments.seed + first
        ids = session.generate([prompt], max_new_tokens=count, eos_token_id=ends, samples=rows, **options)
        for number, row in enumerate(ids[:, len(prompt) :].tolist(), first + 1):
            stream, pieces = TextStream(tokenizer.decode, arguments.stop), []
            end = next((place for place, token in enumerate(row, 1) if token in ends), len(row))
            while len(pieces) < end and not stream.has_stopped:
                pieces.append(stream.add(row[len(pieces)]))
            if not arguments.json:
                say(f"[{number}] ", end="")
            _print(text, "".join([*pieces, stream.end()]), row[: len(pieces)], stream.has_stopped, ends, arguments)


def _print(
    prompt: str, text: str, tokens: list[int], has_stopped: bool, ends: set[int], arguments: argparse.Namespace
) -> None:
    if arguments.json:
        stopped = has_stopped or tokens[-1] in ends
        say(json.dumps({"prompt": prompt, "answer": text, "tokens": len(tokens), "stopped": stopped}))
    else:
        answer(text)
    _note_empty(text, tokens, has_stopped, ends, arguments)


def _note_empty(text: str, tokens: list[int], has_stopped: bool, ends: set[int], arguments: argparse.Namespace) -> None:
    advice = "" if arguments.chat else "; give --chat if the adapter was trained on conversations"
    note_empty(text, tokens, has_stopped, ends, advice)
