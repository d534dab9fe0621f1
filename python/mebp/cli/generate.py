# SPDX-License-Identifier: Apache-2.0
"""mebp generate NAME.mebp --prompt TEXT"""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from mebp.cli.session import add_adapter, add_bundle, add_machine, open_session
from mebp.errors import Error
from mebp.words import counted

if TYPE_CHECKING:
    from mebp.chat import Chat
    from mebp.session import Session
    from mebp.tokenizer import Tokenizer

_DEFAULT_NEW_TOKENS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
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
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="X",
        help="0 takes the likeliest token; above 0, tokens are sampled (default: 0)",
    )
    parser.add_argument("--top-k", type=int, metavar="N", help="sample from the N likeliest tokens (default: all)")
    parser.add_argument(
        "--top-p",
        type=float,
        metavar="X",
        help="sample from the likeliest tokens that together reach probability X (default: 1)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed for sampling; each prompt starts from it (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each prompt")
    add_machine(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.system is not None and not arguments.chat:
        raise Error("--system needs --chat; a plain prompt has no system message")

    from mebp.tokenizer import Tokenizer

    tokenizer = Tokenizer(arguments.bundle)
    chat = _make_chat(tokenizer, arguments.system) if arguments.chat else None
    session = open_session(arguments)
    # All are checked before the first is answered.
    prompts = [_prompt(given, tokenizer, chat, session.max_sequence) for given in arguments.prompt]
    stop = chat.stop_tokens() if chat else tokenizer.stop_tokens
    for number, (text, ids) in enumerate(prompts):
        if not arguments.json and len(prompts) > 1:
            print("\n" * bool(number) + f"> {text.strip()}", flush=True)
        _answer(session, tokenizer, text, ids, stop, arguments)
    return 0


def _make_chat(tokenizer: "Tokenizer", system: str | None) -> "Chat":
    from mebp.chat import Chat  # jinja2, which a plain prompt does not need

    return Chat(tokenizer, None if system is None else _utf8("--system", os.fsencode(system)))


def _prompt(given: str, tokenizer: "Tokenizer", chat: "Chat | None", longest: int) -> tuple[str, list[int]]:
    source = "standard input" if given == "-" else "--prompt"
    text = _utf8(source, sys.stdin.buffer.read() if given == "-" else os.fsencode(given))
    text = text.strip() if chat else text
    if not text:
        raise Error(f"{source} is empty; give some text")
    ids = tokenizer.encode(chat.prompt(text)) if chat else tokenizer.encode_document(text)
    if len(ids) >= longest:
        raise Error(
            f'{source} "{_beginning(text)}" has {len(ids)} tokens and the bundle is compiled for sequences of '
            f"{longest}; shorten it or compile with a longer --seq-len"
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


def _answer(
    session: "Session",
    tokenizer: "Tokenizer",
    text: str,
    prompt: list[int],
    stop: set[int],
    arguments: argparse.Namespace,
) -> None:
    from mebp.streaming import TextStream

    streams = sys.stdout.isatty() and not arguments.json
    stream = TextStream(tokenizer.decode)

    def show(tokens: object) -> None:
        print(stream.add(int(tokens[0])), end="", flush=True)

    count, left = arguments.max_new_tokens, session.max_sequence - len(prompt)
    if count is not None and count > left:
        print(
            f"mebp: note: up to {counted(left, 'new token')}, not {count:,}: the prompt has {len(prompt)}, and the "
            f"bundle is compiled for sequences of {session.max_sequence}",
            file=sys.stderr,
        )
    count = min(_DEFAULT_NEW_TOKENS if count is None else count, left)
    try:
        ids = session.generate(
            [prompt],
            max_new_tokens=count,
            eos_token_id=stop,
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            seed=arguments.seed,
            callback=show if streams else None,
        )
    except KeyboardInterrupt:
        if streams:
            print()  # what is there of the answer stays, on a line of its own
        raise
    new = ids[0, len(prompt) :].tolist()
    answer = tokenizer.decode(new).strip()
    if arguments.json:
        stopped = new[-1] in stop
        print(json.dumps({"prompt": text, "answer": answer, "tokens": len(new), "stopped": stopped}), flush=True)
    else:
        print(stream.end() if streams else answer, flush=True)
