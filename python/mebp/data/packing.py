# SPDX-License-Identifier: Apache-2.0
"""Documents, one after the other, in rows of one length."""

from collections.abc import Sequence

import numpy as np

from mebp.data.dataset import Row
from mebp.data.reading import Document
from mebp.tokenizer import Tokenizer


def pack(documents: Sequence[Document], tokenizer: Tokenizer, length: int) -> list[Row]:
    """Rows of `length` tokens, the last maybe shorter; an end-of-text token follows each document."""
    parts = [
        [*tokenizer.encode_document(document.text), tokenizer.end_of_text] for document in documents if document.text
    ]
    tokens = np.concatenate([np.array(part, dtype=np.int32) for part in ([], *parts)])
    rows = [tokens[start : start + length] for start in range(0, len(tokens), length)]
    return [Row(row, row) for row in rows if len(row) > 1]  # one token predicts nothing
