# SPDX-License-Identifier: Apache-2.0
"""Documents in rows of one length."""

from collections.abc import Iterable, Iterator

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
    short: list[str] = []

    def write(blocks: Iterable[np.ndarray]) -> None:
        for part in _between_marks(blocks, encoder):
            writer.add(part, ends=False)

    def write_short() -> None:
        for ids in encoder.arrays(short):
            write([ids])
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
        is_stream = isinstance(document, TextStream)
        write(encoder.blocks(document.blocks) if is_stream else encoder.long(document.text))
    write_short()
    writer.add(np.array([], np.int32))


def _between_marks(blocks: Iterable[np.ndarray], encoder: Encoder) -> Iterator[np.ndarray]:
    """The tokens of one document, between what the model wants around it; a mark that it has gets no second one."""
    before, last = np.array(encoder.before_text, np.int32), None
    for ids in blocks:
        if not len(ids):
            continue
        if last is None and not np.array_equal(ids[: len(before)], before):
            yield before
        yield ids
        last = ids[-1]
    if last is None:
        yield before
    if last != encoder.end_of_text:
        yield np.array([encoder.end_of_text], np.int32)


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
        tokens = tokens[len(before) :] if len(before) and np.array_equal(tokens[: len(before)], before) else tokens
        tokens = tokens[: -len(after)] if len(after) and np.array_equal(tokens[-len(after) :], after) else tokens
        for start in range(0, len(tokens), room):
            ids = np.concatenate([before, tokens[start : start + room], after])
            labels = np.where(np.isin(ids, special), np.int32(IGNORED_LABEL), ids)
            rows.append(Row(ids, labels, np.zeros(len(ids), np.int32), shift=0))
    return [row for row in rows if row.counted]
