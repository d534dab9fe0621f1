# SPDX-License-Identifier: Apache-2.0
"""Documents, one after the other, in rows of one length."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row
from mebp.data.forms import Document
from mebp.tokenizer import Tokenizer

# The tokenizer takes 180 bytes a character, so long texts go through it in pieces. They are cut before a lone space or
# after a lone line end, where a token ends in any case; some tokenizers begin each piece with a space of their own.
_PIECE = 1 << 16
_CUT = re.compile(r"(?<=\S)(?= \S)|(?<=\S\n)(?=\S)")


def pack(documents: Sequence[Document], tokenizer: Tokenizer, length: int) -> list[Row]:
    """Rows of `length` tokens, the last maybe shorter; an end-of-text token follows each document."""
    parts = [np.array([], dtype=np.int32)]
    for document in documents:
        if not document.text:
            continue
        first, *others = _pieces(document.text)
        parts.append(np.array(tokenizer.encode_document(first), dtype=np.int32))
        parts.extend(np.array(tokenizer.encode(piece), dtype=np.int32) for piece in others)
        parts.append(np.array([tokenizer.end_of_text], dtype=np.int32))
    tokens = np.concatenate(parts)
    rows = [tokens[start : start + length] for start in range(0, len(tokens), length)]
    return [Row(row, row) for row in rows if len(row) > 1]  # one token predicts nothing


def cut(documents: Sequence[Document], tokenizer: Tokenizer, length: int) -> list[Row]:
    """Samples of up to `length` tokens, for an encoder: each is a part of a document between what the model wants
    around a text, such as [CLS] and [SEP]. A label is its own token, and that of special ones does not count."""
    before, after = (np.array(ids, dtype=np.int32) for ids in (tokenizer.before_text, tokenizer.after_text))
    room = length - len(before) - len(after)
    special = np.array(sorted(tokenizer.special_tokens), dtype=np.int32)
    rows = []
    for document in documents if room > 0 else ():
        parts = [np.array(tokenizer.encode(piece), dtype=np.int32) for piece in _pieces(document.text)]
        tokens = np.concatenate(parts)
        for start in range(0, len(tokens), room):
            ids = np.concatenate([before, tokens[start : start + room], after])
            labels = np.where(np.isin(ids, special), np.int32(IGNORED_LABEL), ids)
            rows.append(Row(ids, labels, np.zeros(len(ids), np.int32), shift=0))
    return [row for row in rows if row.counted]


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while cut := _CUT.search(text, start + _PIECE):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]
