# SPDX-License-Identifier: Apache-2.0
"""A model without an adapter and with it, side by side."""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mebp.data.prompts import Prompt
from mebp.data.thoughts import thought_and_answer
from mebp.errors import Error
from mebp.judging.measuring import before_end, mean_loss, score_rows, write_answers
from mebp.judging.prepared import Prepared
from mebp.judging.questions import Question
from mebp.rewards import Rewards, Sampled
from mebp.session import Session
from mebp.tables import Table
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import perplexity
from mebp.words import counted

MOST_CHANGED = 10
RIGHT, FORGETS, LOSS, PERPLEXITY = "right", "forgets", "loss", "perplexity"
GENERAL_LOSS, GENERAL_PERPLEXITY = "general_loss", "general_perplexity"
_IN_WORDS = {
    RIGHT: "right",
    LOSS: "loss",
    PERPLEXITY: "perplexity",
    GENERAL_LOSS: "loss on general text",
    GENERAL_PERPLEXITY: "perplexity on general text",
}
MEASURED = tuple(_IN_WORDS)  # with an adapter and without one
BASE = "base_"
FIGURES = (RIGHT, FORGETS, *MEASURED[1:], *(BASE + name for name in MEASURED))


@dataclass(frozen=True)
class Answer:
    """Of a question: what the model writes, or the choice that is likeliest."""

    text: str
    right: float  # 1 or 0, or what a function gives

    @property
    def word(self) -> str:
        return {1.0: "right", 0.0: "wrong"}.get(self.right, f"{self.right:g}")


class Written(NamedTuple):
    """What a model wrote."""

    ids: Sequence[int]  # with the one that ends it
    text: str
    apart: tuple[str | None, str]  # what it thinks and what it answers


@dataclass(frozen=True)
class Side:
    """What was measured of a session as it is. NaN is what there was nothing for."""

    answers: Mapping[int, Answer]  # by the question's index
    loss: float  # of the right answers, in nats a token
    general: float  # of general text, likewise
    kinds: Mapping[str, float] = field(default_factory=dict)  # the same by the kind of text

    @cached_property
    def figures(self) -> dict[str, float]:
        right = [each.right for each in self.answers.values()]
        share = math.fsum(right) / len(right) if right else math.nan
        losses = {LOSS: self.loss, GENERAL_LOSS: self.general}
        likely = {PERPLEXITY: _perplexity(self.loss), GENERAL_PERPLEXITY: _perplexity(self.general)}
        return {RIGHT: share, **losses, **likely}


@dataclass(frozen=True)
class Change:
    """A question whose answer the adapter changes."""

    question: Question
    before: Answer
    after: Answer


@dataclass(frozen=True)
class Judgement:
    questions: Sequence[Question]
    base: Side
    adapted: Side | None  # None where there is no adapter

    @property
    def judged(self) -> Side:
        return self.adapted or self.base

    @property
    def forgets(self) -> float:
        """By which share the loss of general text has grown."""
        return self.adapted.general / self.base.general - 1 if self.adapted else math.nan

    @cached_property
    def figures(self) -> dict[str, float]:
        """By the names that a gate has for them; NaN is what was not measured."""
        base = self.base.figures if self.adapted else dict.fromkeys(MEASURED, math.nan)
        return {
            **self.judged.figures,
            FORGETS: self.forgets,
            **{BASE + name: value for name, value in base.items()},
        }

    @cached_property
    def changes(self) -> list[Change]:
        """Questions with another answer than before, those that have changed most first: from wrong to right or from
        right to wrong, then by how little of the text is the same."""
        if self.adapted is None:
            return []
        found = [
            Change(self.questions[index], before, self.adapted.answers[index])
            for index, before in self.base.answers.items()
            if before.text != self.adapted.answers[index].text
        ]
        return sorted(found, key=lambda each: (-abs(each.after.right - each.before.right), _likeness(each)))

    def headline(self) -> str:
        """How many answers are right."""
        if not self.judged.answers:
            return "no sample says what is right, so only losses were measured"
        said = f"{_rights(self.judged)} of {counted(len(self.judged.answers), 'answer')} right"
        return f"{said}, {_rights(self.base)} without the adapter" if self.adapted else said

    def table(self) -> Table:
        base, adapted = self.base.figures, self.adapted.figures if self.adapted else None
        names = [name for name in MEASURED if not math.isnan(base[name])]
        if adapted is None:
            return Table("", ["", "the model"], [[_IN_WORDS[name], f"{base[name]:.4f}"] for name in names])
        rows = [
            [_IN_WORDS[name], f"{base[name]:.4f}", f"{adapted[name]:.4f}", f"{adapted[name] - base[name]:+.4f}"]
            for name in names
        ]
        rows += [] if math.isnan(self.forgets) else [[FORGETS, "", f"{self.forgets:.4f}", ""]]
        return Table("", ["", "without", "with the adapter", "change"], rows)

    def as_json(self) -> dict[str, object]:
        """What was not measured is null."""

        def finite(figures: Mapping[str, float]) -> dict[str, float | None]:
            return {name: value if math.isfinite(value) else None for name, value in figures.items()}

        answers = [
            {
                "where": self.questions[index].where,
                "question": self.questions[index].shown,
                **({"base": {"answer": self.base.answers[index].text, "right": self.base.answers[index].right}}
                   if self.adapted else {}),
                "answer": answer.text,
                "right": answer.right,
            }
            for index, answer in sorted(self.judged.answers.items())
        ]  # fmt: skip
        return {"figures": finite(self.figures), "general": finite(self.judged.kinds), "answers": answers}


def judge(
    session: Session,
    tokenizer: Tokenizer,
    prepared: Prepared,
    adapter: Path | None,
    rewards: Rewards | None = None,
    stage: Callable[[str], object] = lambda stage: None,
) -> Judgement:
    """Measures the session as it is, and again after its `adapter`, which it keeps.

    rewards: one that judges every answer, from 0, wrong, to 1, right. stage: is told what begins.
    """
    base = _measure(session, tokenizer, prepared, rewards, "without the adapter" if adapter else "", stage)
    if adapter is None:
        return Judgement(prepared.questions, base, None)
    session.load_adapter(adapter)
    adapted = _measure(session, tokenizer, prepared, rewards, "with the adapter", stage)
    return Judgement(prepared.questions, base, adapted)


def _measure(
    session: Session,
    tokenizer: Tokenizer,
    prepared: Prepared,
    rewards: Rewards | None,
    how: str,
    stage: Callable[[str], object],
) -> Side:
    def seen(what: str, total: int) -> Callable[[int], object]:
        return lambda done: stage(f"{how}{': ' * bool(how)}{what}, {done:,} of {total:,}")

    loss = mean_loss(score_rows(session, prepared.rows, seen("right answers", len(prepared.rows))))
    written: dict[int, Written] = {}
    indices = list(prepared.asked)
    for place, ids in write_answers(session, list(prepared.asked.values()), seen("answers", len(indices))):
        asked = prepared.asked[indices[place]]
        own = before_end(ids, asked.stop)
        written[indices[place]] = Written(
            ids, tokenizer.decode(own).strip(), thought_and_answer(tokenizer, asked.ids, own)
        )
    answers = _chosen(session, prepared, seen("choices", len(prepared.choices)))
    answers |= _rewarded(prepared, written, rewards) if rewards else _checked(prepared, written)
    general = score_rows(session, [row for _, row in prepared.general], seen("general text", len(prepared.general)))
    kinds = {}
    for kind in dict.fromkeys(kind for kind, _ in prepared.general if kind):
        kinds[kind] = mean_loss([each for (own, _), each in zip(prepared.general, general, strict=True) if own == kind])
    return Side(dict(sorted(answers.items())), loss, mean_loss(general), kinds)


def _chosen(session: Session, prepared: Prepared, seen: Callable[[int], object]) -> dict[int, Answer]:
    rows = [row for several in prepared.choices.values() for row in several]
    scored, answers, start = score_rows(session, rows, seen), {}, 0
    for index, several in prepared.choices.items():
        likelihoods = [each.log_probability for each in scored[start : start + len(several)]]
        start += len(several)
        check = prepared.questions[index].check
        text = check.texts[int(np.argmax(likelihoods))]
        answers[index] = Answer(text, float(check.passes(text)))
    return answers


def _checked(prepared: Prepared, written: Mapping[int, Written]) -> dict[int, Answer]:
    return {
        index: Answer(each.text, float(prepared.questions[index].check.passes(each.apart[1])))
        for index, each in written.items()
    }


def _rewarded(prepared: Prepared, written: Mapping[int, Written], rewards: Rewards) -> dict[int, Answer]:
    batch = []
    for index, each in sorted(written.items()):
        question = prepared.questions[index]
        prompt = Prompt(
            question.where, question.text.prompt, np.array(prepared.asked[index].ids, np.int32), question.columns
        )
        batch.append(Sampled(prompt, each.text, each.ids, apart=each.apart))
    given = rewards.score(batch).rewards[:, 0]
    answers = {}
    for index, one, value in zip(sorted(written), batch, given.tolist(), strict=True):
        if not 0 <= value <= 1:
            said = "None" if math.isnan(value) else f"{value:g}"
            raise Error(
                f"reward {rewards.names[0]}: gives {said} for {one.prompt.where}; to judge, give a number from 0, "
                "wrong, to 1, right"
            )
        answers[index] = Answer(one.text, value)
    return answers


def _perplexity(loss: float) -> float:
    return loss if math.isnan(loss) else perplexity(loss)


def _rights(side: Side) -> str:
    return f"{math.fsum(each.right for each in side.answers.values()):g}"


def _likeness(change: Change) -> float:
    return difflib.SequenceMatcher(None, change.before.text, change.after.text, autojunk=False).ratio()
