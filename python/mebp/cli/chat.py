# SPDX-License-Identifier: Apache-2.0
"""mebp chat MODEL"""

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from mebp.cli.connection import add_connection
from mebp.cli.sampling import add_sampling, check_sampling, note_empty, note_passes, sampling
from mebp.cli.session import add_adapter, add_compiling, add_machine, add_model, open_session, use
from mebp.errors import Error
from mebp.words import answer, is_terminal, say

if TYPE_CHECKING:
    from mebp.chat import Chat
    from mebp.session import Session
    from mebp.tokenizer import Tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system message (default: the template's own)")
    add_adapter(parser)
    parser.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="at most N tokens in an answer (default: what fits)"
    )
    add_sampling(parser)
    add_machine(parser)
    add_connection(parser)
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)


def run(arguments: argparse.Namespace) -> int:
    check_sampling(arguments)
    if arguments.max_new_tokens is not None and arguments.max_new_tokens < 1:
        raise Error(f"--max-new-tokens {arguments.max_new_tokens}: give at least 1")
    from mebp.chat import Chat
    from mebp.tokenizer import Tokenizer

    use(arguments)
    tokenizer = Tokenizer(arguments.bundle)
    chat = Chat(tokenizer, arguments.system)
    session = open_session(arguments, generates=True)
    if not session.generates:
        raise Error(
            f"{arguments.bundle}: was compiled without generation; compile it with --generate-len N, the most tokens "
            "that a conversation may have"
        )
    conversation = _Conversation(session, tokenizer, chat, arguments)
    while (question := _read()) is not None:
        if question:
            conversation.ask(question)
    conversation.end()
    return 0


def _read() -> str | None:
    """The user's next turn; None where there is no other. Ctrl-C leaves, as KeyboardInterrupt."""
    shows = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    try:
        if shows:
            return input("> ").strip()
        line = sys.stdin.buffer.readline()
        return line.decode().strip() if line else None
    except EOFError:
        say()
        return None
    except UnicodeDecodeError as error:
        raise Error(f"standard input is not UTF-8 at byte {error.start}; convert it") from error


class _Conversation:
    """Keeps turns, and the keys and values of what they begin with."""

    def __init__(self, session: "Session", tokenizer: "Tokenizer", chat: "Chat", arguments: argparse.Namespace) -> None:
        self._session, self._tokenizer, self._chat = session, tokenizer, chat
        self._ends = chat.stop_tokens()
        self._most, self._stop = arguments.max_new_tokens, arguments.stop
        self._options = sampling(arguments)
        self._source = session.keys_and_values()

    def ask(self, question: str) -> None:
        """Prints the answer as it comes. Ctrl-C ends it: what is there of it is kept."""
        from mebp.streaming import TextStream

        prompt = self._prompt(question)
        stream, pieces = TextStream(self._tokenizer.decode, self._stop), []
        seen: list[int] = []

        def show(tokens: object) -> None:
            seen.append(int(tokens[0]))
            pieces.append(stream.add(seen[-1]))
            answer(pieces[-1], end="")

        left = self._session.max_positions - len(prompt)
        has_ended = False
        with suppress(KeyboardInterrupt):
            self._session.generate(
                [prompt],
                max_new_tokens=min(left, self._most or left),
                eos_token_id=self._ends,
                callback=show,
                source=self._source,
                **self._options,
            )
            has_ended = True
        pieces.append(stream.end())
        answer(pieces[-1])
        if has_ended:
            note_empty("".join(pieces), seen, stream.has_stopped, self._ends)
        self._options["seed"] += 1
        self._chat.keep(question, "".join(pieces))

    def end(self) -> None:
        """After the last question: what there is to say of it."""
        if self._options["drafts"]:
            note_passes(self._source)

    def _prompt(self, question: str) -> list[int]:
        """With as many of the turns before as there is room for."""
        while True:
            ids = self._tokenizer.encode(self._chat.prompt(question))
            if len(ids) < self._session.max_positions:
                return ids
            if not self._chat.forget_first():
                raise Error(
                    f"the message has {len(ids)} tokens and the bundle is compiled for {self._session.max_positions}; "
                    "shorten it or compile with a longer --generate-len"
                )
            say("mebp: note: the conversation is too long: its first turn was left out", error=True)
