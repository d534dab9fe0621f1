# SPDX-License-Identifier: Apache-2.0
"""What a session as it is, with its adapter or without one, makes of samples: log-probabilities and answers."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row
from mebp.session import Session


@dataclass(frozen=True)
class Scored:
    """Of a row."""

    log_probability: float  # of all its labels together, in nats
    labels: int


@dataclass(frozen=True)
class Asked:
    """A prompt in tokens, up to where the answer begins, and what ends the answer."""

    ids: Sequence[int]
    stop: frozenset[int]
    most: int  # tokens of the answer


def score_rows(
    session: Session, rows: Sequence[Row], seen: Callable[[int], object] = lambda rows: None
) -> list[Scored]:
    """The log-probability of each row's labels, in the order of the rows. `seen` is told how many have been."""
    found: list[Scored | None] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))  # the longest together: little padding
    for start in range(0, len(order), session.max_batch):
        seen(start)
        chosen = order[start : start + session.max_batch]
        ids = np.zeros((len(chosen), len(rows[chosen[0]])), dtype=np.int32)
        labels = np.full_like(ids, IGNORED_LABEL)
        for place, index in enumerate(chosen):
            ids[place, : len(rows[index])] = rows[index].ids
            labels[place, : len(rows[index])] = rows[index].labels
        for index, logprobs in zip(chosen, session.log_probabilities(ids, labels)[0], strict=True):
            found[index] = Scored(math.fsum(logprobs.tolist()), rows[index].counted)
    return [each for each in found if each is not None]


def mean_loss(scored: Sequence[Scored]) -> float:
    """In nats a label, each of which counts once, however long its row is; NaN of none."""
    labels = sum(each.labels for each in scored)
    return -math.fsum(each.log_probability for each in scored) / labels if labels else math.nan


def write_answers(
    session: Session, asked: Sequence[Asked], seen: Callable[[int], object] = lambda prompts: None
) -> Iterator[tuple[int, list[int]]]:
    """The likeliest tokens after each prompt, with the one that ends them, and the prompt's index; prompts of one
    length are answered side by side, which changes no answer."""

    def alike(index: int) -> tuple:
        return len(asked[index].ids), asked[index].most, sorted(asked[index].stop)

    done = 0
    for (length, most, stop), several in groupby(sorted(range(len(asked)), key=alike), alike):
        indices = list(several)
        for start in range(0, len(indices), session.max_batch):
            seen(done)
            chosen = indices[start : start + session.max_batch]
            written = session.generate([list(asked[index].ids) for index in chosen], most, set(stop))
            for index, row in zip(chosen, written[:, length:].tolist(), strict=True):
                ends = next((place for place, token in enumerate(row, 1) if token in stop), len(row))
                yield index, row[:ends]
            done += len(chosen)


def document_rows(ids: Sequence[int], length: int) -> Iterator[Row]:
    """A text's tokens in rows of up to `length`; one token alone predicts nothing."""
    whole = np.array(ids, dtype=np.int32)
    for start in range(0, len(whole) - 1, length):
        part = whole[start : start + length]
        if len(part) > 1:
            yield Row(part, part)


def cut(row: Row, length: int) -> Row:
    return Row(row.ids[:length], row.labels[:length])


def before_end(ids: Sequence[int], stop: frozenset[int]) -> Sequence[int]:
    """Without what ends the answer, which need not be a special token."""
    return ids[:-1] if ids and ids[-1] in stop else ids
