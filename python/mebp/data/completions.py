# SPDX-License-Identifier: Apache-2.0
"""Prompts and what completes them, as rows of tokens in which the completion counts."""

from collections.abc import Iterator, Sequence

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.counting import ALL, AS_USUAL, Counting
from mebp.data.dataset import Row
from mebp.data.encoding import Encoder
from mebp.data.forms import Completion
from mebp.data.thoughts import end_of_empty_thought


def completion_rows(samples: Sequence[Completion], encoder: Encoder, counting: Counting = AS_USUAL) -> Iterator[Row]:
    """The prompt as it stands and what completes it; the completion and an end token count, or with --loss-on all
    everything. An empty thought with which the completion begins counts as the prompt's."""
    before = np.array(encoder.before_text, np.int32)

    def begun(ids: np.ndarray) -> np.ndarray:
        return ids if np.array_equal(ids[: len(before)], before) else np.concatenate([before, ids])

    empty = [0 if counting.learns_empty_thoughts else end_of_empty_thought(each.completion) or 0 for each in samples]
    completions = [sample.completion[end:] for sample, end in zip(samples, empty, strict=True)]
    begins = [sample.prompt + sample.completion[:end] for sample, end in zip(samples, empty, strict=True)]
    prompts, wholes = encoder.begun_and_whole(begins, completions)
    prompts, wholes = (list(map(begun, ids)) for ids in (prompts, wholes))
    pairs = zip(prompts, wholes, strict=True)
    over = [index for index, (prompt, whole) in enumerate(pairs) if not np.array_equal(whole[: len(prompt)], prompt)]
    # A token would reach over the border, where a prompt alone never has it.
    for index, ids in zip(over, encoder.arrays([completions[index] for index in over]), strict=True):
        wholes[index] = np.concatenate([prompts[index], ids])
    for sample, end, prompt, whole in zip(samples, empty, prompts, wholes, strict=True):
        if len(whole) == len(prompt) or int(whole[-1]) not in encoder.stop_tokens:
            whole = np.append(whole, np.int32(encoder.end_of_sequence))
        labels = whole.copy()
        first = 0
        if counting.on == ALL:
            first = len(begun(encoder.arrays([sample.prompt])[0])) if end else len(prompt)
        labels[first : len(prompt)] = IGNORED_LABEL
        weights = np.where(labels == IGNORED_LABEL, 0, sample.weight).astype(np.float32)
        yield Row(whole, labels, weights=weights if counting.weighs else None)
