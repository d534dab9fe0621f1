# SPDX-License-Identifier: Apache-2.0
"""Prompts and what completes them, as rows of tokens in which the completion counts."""

from collections.abc import Iterator, Sequence

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row
from mebp.data.encoding import Encoder
from mebp.data.forms import Completion


def completion_rows(samples: Sequence[Completion], encoder: Encoder) -> Iterator[Row]:
    """The prompt as it stands and what completes it; the completion and an end token count."""
    before = np.array(encoder.before_text, np.int32)

    def begun(ids: np.ndarray) -> np.ndarray:
        return ids if np.array_equal(ids[: len(before)], before) else np.concatenate([before, ids])

    completions = [sample.completion for sample in samples]
    prompts, wholes = encoder.begun_and_whole([sample.prompt for sample in samples], completions)
    prompts, wholes = (list(map(begun, ids)) for ids in (prompts, wholes))
    pairs = zip(prompts, wholes, strict=True)
    over = [index for index, (prompt, whole) in enumerate(pairs) if not np.array_equal(whole[: len(prompt)], prompt)]
    # A token would reach over the border, where a prompt alone never has it.
    for index, ids in zip(over, encoder.arrays([completions[index] for index in over]), strict=True):
        wholes[index] = np.concatenate([prompts[index], ids])
    for prompt, whole in zip(prompts, wholes, strict=True):
        if len(whole) == len(prompt) or int(whole[-1]) not in encoder.stop_tokens:
            whole = np.append(whole, np.int32(encoder.end_of_sequence))
        labels = whole.copy()
        labels[: len(prompt)] = IGNORED_LABEL
        yield Row(whole, labels)
