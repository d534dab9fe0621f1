# SPDX-License-Identifier: Apache-2.0
"""Documents in rows of one length."""

from collections.abc import Iterable

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.cuts import BLOCK
from mebp.data.dataset import Row
from mebp.data.encoding import Encoder
from mebp.data.forms import Document
from mebp.data.reading import TextStream
from mebp.data.store import TokenWriter
from mebp.tokenizer import Tokenizer

_TOGETHER = 1 << 17  # characters of short documents that are encoded at once


def write_documents(documents: Iterable[Document | TextStream], encoder: Encoder, writer: TokenWriter) -> None:
    """All documents as one, with an end-of-text token after each; empty ones are left out."""
    before, after = np.array(encoder.before_text, np.int32), np.array([encoder.end_of_text], np.int32)
    short: list[str] = []

    def write_short() -> None:
        for ids in encoder.arrays(short):
            for part in (before, ids, after):
                writer.add(part, ends=False)
        short.clear()

    size = 0
    for document in documents:
        if isinstance(document, Document) and len(document.text) < BLOCK:
            short += [document.text] if document.text else []
            size += len(document.text)
            if size > _TOGETHER:
                write_short()
                size = 0
            continue
        write_short()
        writer.add(before, ends=False)
        is_stream = isinstance(document, TextStream)
        for ids in encoder.blocks(document.blocks) if is_stream else encoder.long(document.text):
            writer.add(ids, ends=False)
        writer.add(after, ends=False)
    write_short()
    writer.add(before[:0])


def cut(documents: Iterable[Document], tokenizer: Tokenizer, length: int) -> list[Row]:
    """Samples of up to `length` tokens, for an encoder: each is a part of a document between what the model wants
    around a text, such as [CLS] and [SEP]. A label is its own token, and that of special ones does not count."""
    before, after = (np.array(ids, dtype=np.int32) for ids in (tokenizer.before_text, tokenizer.after_text))
    room = length - len(before) - len(after)
    special = np.array(sorted(tokenizer.special_tokens), dtype=np.int32)
    encoder = Encoder(tokenizer)
    rows = []
    for document in documents if room > 0 else ():
        tokens = np.concatenate([*encoder.long(document.text)])
        for start in range(0, len(tokens), room):
            ids = np.concatenate([before, tokens[start : start + room], after])
            labels = np.where(np.isin(ids, special), np.int32(IGNORED_LABEL), ids)
            rows.append(Row(ids, labels, np.zeros(len(ids), np.int32), shift=0))
    return [row for row in rows if row.counted]
