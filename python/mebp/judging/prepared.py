# SPDX-License-Identifier: Apache-2.0
"""All that is measured of samples, in tokens, before anything is computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Dataset, Row
from mebp.data.forms import Document
from mebp.data.prompt_text import PromptText, PromptTokens
from mebp.data.reading import SampleFiles, json_objects
from mebp.data.sampling import sample_rows
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.judging.checks import Choices
from mebp.judging.measuring import Asked, cut, document_rows
from mebp.judging.questions import Question
from mebp.session import Session
from mebp.tokenizer import Tokenizer

GENERAL = Path(__file__).with_name("general.jsonl")  # 200 samples, written for this project
KIND = "kind"  # of a sample of general text, where it has one
MOST_NEW_TOKENS = 64


@dataclass(frozen=True)
class Prepared:
    questions: Sequence[Question]
    asked: Mapping[int, Asked]  # prompts that are answered, by the question's index
    choices: Mapping[int, Sequence[Row]]  # a row for each choice, by the question's index
    rows: Sequence[Row]  # right answers, whose loss is measured
    general: Sequence[tuple[str, Row]]  # with the kind of text, empty where it has none
    notes: Sequence[str] = ()

    def dataset(self, tokenizer: Tokenizer) -> Dataset:
        """Of the right answers."""
        return Dataset(self.rows, tokenizer.padding)


def prepare(
    questions: Sequence[Question],
    source: Source,
    general: Source | None,
    session: Session,
    tokenizer: Tokenizer,
    judged: bool = False,
    max_new_tokens: int = MOST_NEW_TOKENS,
) -> Prepared:
    """source: where the questions are from; general: the text of which forgetting is measured.

    judged: whether a function judges every answer. Raises mebp.Error, with the line, for what does not fit the bundle.
    """
    files, longest = source.files(), session.max_sequence
    tokens = PromptTokens(files, tokenizer, session.vocabulary)
    texts = [_with_choices(question, judged) for question in questions]
    asked, choices = {}, {}
    for index, (question, (prompt, completions)) in enumerate(zip(questions, tokens.read(texts), strict=True)):
        stop = tokens.ends.after(question.text.prompt).stop
        if completions:
            choices[index] = [_choice_row(question.where, prompt, each, stop, longest) for each in completions]
        elif judged or question.check is not None:
            asked[index] = _asked(question.where, prompt, stop, session, max_new_tokens)
    samples = [question.sample for question in questions if question.sample is not None]
    rows, notes = _shortened(sample_rows(samples, files, tokenizer), longest, source)
    return Prepared(questions, asked, choices, rows, _general(general, tokenizer, longest) if general else (), notes)


def _with_choices(question: Question, judged: bool) -> PromptText:
    text = question.text
    if judged or not isinstance(question.check, Choices):
        return text
    written = {
        f"choice {number}": each if isinstance(text.prompt, str) else [{"role": "assistant", "content": each}]
        for number, each in enumerate(question.check.texts)
    }
    return PromptText(text.where, text.prompt, text.tools, written)


def _choice_row(where: str, prompt: Sequence[int], choice: Sequence[int], stop: frozenset[int], longest: int) -> Row:
    """The choice's own tokens count; what ends an answer would favour those that sound complete."""
    end = next((place for place, token in enumerate(choice) if token in stop), len(choice)) or len(choice)
    ids = np.array([*prompt, *choice[:end]], dtype=np.int32)
    if len(ids) > longest:
        raise Error(
            f"{where}: has {len(ids):,} tokens with its longest choice, and the bundle takes {longest:,}; shorten it, "
            "or compile with a longer --seq-len"
        )
    labels = ids.copy()
    labels[: len(prompt)] = IGNORED_LABEL
    return Row(ids, labels)


def _asked(where: str, prompt: Sequence[int], stop: frozenset[int], session: Session, most: int) -> Asked:
    room = session.max_positions - len(prompt)
    if room < 1:
        option = "--generate-len" if session.generates else "--seq-len"
        raise Error(
            f"{where}: has {len(prompt):,} tokens, and the bundle takes {session.max_positions:,} with the answer; "
            f"shorten it, or compile with a longer {option}"
        )
    return Asked(prompt, stop, min(most, room))


def _shortened(rows: Sequence[Row], longest: int, source: Source) -> tuple[list[Row], list[str]]:
    kept = [cut(row, longest) for row in rows]
    long = sum(len(row) > longest for row in rows)
    notes = (
        [f"{source}: {long:,} of {len(rows):,} samples were cut to {longest:,} tokens for their loss"] if long else []
    )
    return [row for row in kept if row.counted], notes


def _general(source: Source, tokenizer: Tokenizer, longest: int) -> list[tuple[str, Row]]:
    kinds = _kinds(source)
    samples = list(SampleFiles(source))
    documents = [each for each in samples if isinstance(each, Document)]
    if documents:
        rows = [
            (kinds.get(each.where, ""), row)
            for each in documents
            for row in document_rows(tokenizer.encode_document(each.text), longest)
        ]
    else:
        spoken = [each for each in samples if not isinstance(each, Document)]
        made = [cut(row, longest) for row in sample_rows(spoken, source.files(), tokenizer)]
        rows = [(kinds.get(each.where, ""), row) for each, row in zip(spoken, made, strict=True) if row.counted]
    if not rows:
        raise Error(f"--also {source}: has nothing to predict within {longest:,} tokens; give another file")
    return rows


def _kinds(source: Source) -> dict[str, str]:
    """Of samples of JSON that name one, by where they are."""
    if source.path.suffix != ".jsonl":
        return {}
    entries = json_objects(source)
    return {where: entry[KIND] for where, entry in entries if isinstance(entry.get(KIND), str)}
