# SPDX-License-Identifier: Apache-2.0
"""Prompts and what completes them, as rows of tokens in which the completion counts."""

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row
from mebp.data.forms import Completion
from mebp.tokenizer import Tokenizer


def completion_row(sample: Completion, tokenizer: Tokenizer) -> Row:
    """The prompt as it stands and what completes it; the completion and an end token count."""
    prompt = tokenizer.encode_document(sample.prompt)
    whole = tokenizer.encode_document(sample.prompt + sample.completion)
    if whole[: len(prompt)] != prompt:  # a token would reach over the border, where a prompt alone never has it
        whole = prompt + tokenizer.encode(sample.completion)
    if len(whole) == len(prompt) or whole[-1] not in tokenizer.stop_tokens:
        whole = [*whole, tokenizer.end_of_sequence]
    ids = np.array(whole, dtype=np.int32)
    labels = ids.copy()
    labels[: len(prompt)] = IGNORED_LABEL
    return Row(ids, labels)
