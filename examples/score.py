# SPDX-License-Identifier: Apache-2.0
"""Asks a bundle questions and counts the right answers.

    python examples/score.py NAME.mebp --questions FILE [--adapter DIR] [--show N]

FILE has a conversation a line, as for `mebp train`: a question in "messages" with its answer, and which words an answer
must contain, "accept": ["...", ...]. One of them is enough, whole and in any case. The model answers greedily.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mebp
from mebp.chat import Chat
from mebp.data.forms import Conversation, Sample
from mebp.data.reading import json_objects, read_samples
from mebp.judging.checks import Accepted
from mebp.tokenizer import Tokenizer

MAX_NEW_TOKENS = 16  # enough for each answer in the examples; what has not come by then is wrong


@dataclass(frozen=True)
class Question:
    text: str
    accept: Sequence[str]

    def is_answered_by(self, answer: str) -> bool:
        return Accepted(self.accept).passes(answer)


def read_questions(path: Path) -> list[Question]:
    """Raises mebp.Error, with the line, for what is not a question."""
    samples = read_samples(path)
    return [_question(sample, entry) for sample, (_, entry) in zip(samples, json_objects(path), strict=True)]


def _question(sample: Sample, entry: dict) -> Question:
    turns = sample.messages if isinstance(sample, Conversation) else []
    if [turn["role"] for turn in turns] != ["user", "assistant"]:
        raise mebp.Error(f'{sample.where}: is not one question and its answer; give these two as "messages"')
    accept = entry.get("accept")
    if not isinstance(accept, list) or not accept or not all(isinstance(word, str) and word.strip() for word in accept):
        raise mebp.Error(f'{sample.where}: does not say which words are right; give "accept": ["...", ...]')
    return Question(turns[0]["content"], accept)


class Assistant:
    """A session that answers questions by its tokenizer's chat template."""

    def __init__(self, session: mebp.Session, tokenizer: Tokenizer) -> None:
        chat = Chat(tokenizer)
        self._session, self._tokenizer, self._chat = session, tokenizer, chat
        self.stop_tokens = chat.stop_tokens()

    def prompt(self, question: str) -> list[int]:
        """The token ids up to where the answer begins."""
        return self._tokenizer.encode(self._chat.prompt(question))

    def answer(self, question: str) -> list[int]:
        """The tokens of the greedy answer, with the one that ends it if it came to that."""
        prompt = self.prompt(question)
        return self._session.generate([prompt], MAX_NEW_TOKENS, self.stop_tokens)[0, len(prompt) :].tolist()


def run(arguments: argparse.Namespace) -> None:
    questions = read_questions(arguments.questions)
    tokenizer = Tokenizer(arguments.bundle)
    session = mebp.Session(arguments.bundle, threads=arguments.threads, return_gradients=False)
    if arguments.adapter:
        session.load_adapter(arguments.adapter)
    assistant = Assistant(session, tokenizer)
    right = 0
    for number, question in enumerate(questions):
        answer = " ".join(tokenizer.decode(assistant.answer(question.text)).split())
        right += question.is_answered_by(answer)
        if number < arguments.show:
            print(f"> {question.text}\n{answer}\n", flush=True)
    print(f"{right} of {len(questions)} answers are right ({right / len(questions):.0%})")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ask a bundle questions and count the right answers.")
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp", help="the bundle that mebpc wrote")
    parser.add_argument("--questions", type=Path, required=True, metavar="FILE")
    parser.add_argument("--adapter", type=Path, metavar="DIR", help="use this PEFT adapter, such as mebp train writes")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N answers (0)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads to use (default: all)")
    return parser.parse_args()


def main() -> int:
    try:
        run(parse())
    except mebp.Error as error:
        print(f"score.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
