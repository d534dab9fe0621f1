# SPDX-License-Identifier: Apache-2.0
"""libmebp_text's chat templates by ctypes, and what Python's data path has for the same conversations."""

import ctypes
from collections.abc import Iterator, Sequence

from mebp.arrays import IGNORED_LABEL
from mebp.data.chat_template import ChatTemplate
from mebp.data.conversations import conversation_row, find_turns
from mebp.data.counting import Counting
from mebp.data.forms import Conversation
from mebp.data.turn_ends import TurnEnds
from mebp.data.turns import Message
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.library import MebpError, built


class _Turn(ctypes.Structure):
    _fields_ = [("role", ctypes.c_char_p), ("text", ctypes.c_char_p), ("bytes", ctypes.c_size_t),
                ("learned", ctypes.c_bool)]  # fmt: skip


class _Token(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("begin", ctypes.c_size_t), ("end", ctypes.c_size_t)]


class ChatLibrary:
    """mebp_chat of a chat.json's bytes."""

    def __init__(self, file: bytes) -> None:
        self._library, self._error, self._chat = (
            ctypes.CDLL(built("lib/libmebp_text.so")),
            MebpError(),
            ctypes.c_void_p(),
        )
        self._library.mebp_chat_ends.restype = ctypes.POINTER(ctypes.c_int32)
        self._call("mebp_chat_open_bytes", file, ctypes.c_size_t(len(file)), ctypes.byref(self._chat))

    def close(self) -> None:
        self._library.mebp_chat_close(self._chat)

    def ends(self) -> list[int]:
        count = ctypes.c_uint32()
        return self._library.mebp_chat_ends(self._chat, ctypes.byref(count))[: count.value]

    def text(self, messages: Sequence[Message], is_prompt: bool = False) -> str:
        turns, size = _turns(messages, frozenset()), ctypes.c_size_t()

        def write(text: ctypes.Array | None, room: int) -> None:
            self._call("mebp_chat_text", self._chat, turns, ctypes.c_uint32(len(turns)), ctypes.c_bool(is_prompt),
                       text, ctypes.c_size_t(room), ctypes.byref(size))  # fmt: skip

        write(None, 0)
        text = ctypes.create_string_buffer(size.value)
        write(text, size.value)
        return text.raw.decode()

    def labels(
        self, messages: Sequence[Message], tokenizer: Tokenizer, masked: frozenset[int], everything: bool
    ) -> tuple[list[int], list[int]]:
        """Ids by Python's tokenizer of the library's text, and labels by the library."""
        text = self.text(messages)
        ids, offsets = tokenizer.encode_with_offsets(text)
        places = [0]  # of characters
        for character in text:
            places.append(places[-1] + len(character.encode()))
        tokens = (_Token * len(ids))(
            *(_Token(index, places[begin], places[end]) for index, (begin, end) in zip(ids, offsets, strict=True))
        )
        turns, counts = _turns(messages, masked), (ctypes.c_bool * len(ids))()
        self._call("mebp_chat_count", self._chat, turns, ctypes.c_uint32(len(turns)), ctypes.c_bool(everything),
                   tokens, ctypes.c_size_t(len(ids)), counts)  # fmt: skip
        return ids, [index if is_counted else IGNORED_LABEL for index, is_counted in zip(ids, counts, strict=True)]

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._library, name)(*arguments, ctypes.byref(self._error)) != 0:
            raise Error(self._error.message.decode())


def labels_by_python(
    samples: Sequence[Conversation],
    tokenizer: Tokenizer,
    template: ChatTemplate,
    ends: TurnEnds,
    everything: bool,
) -> Iterator[tuple[list[int], list[int]]]:
    counting = Counting.read("all" if everything else None, None, None)
    for found in find_turns(samples, template, ends, counting.on):
        row = conversation_row(found, tokenizer, ends, counting)
        yield row.ids.tolist(), row.labels.tolist()


def _turns(messages: Sequence[Message], masked: frozenset[int]) -> ctypes.Array:
    contents = [message["content"].encode() for message in messages]
    return (_Turn * len(messages))(
        *(
            _Turn(message["role"].encode(), content, len(content), index not in masked)
            for index, (message, content) in enumerate(zip(messages, contents, strict=True))
        )
    )
