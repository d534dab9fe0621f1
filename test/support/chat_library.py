# SPDX-License-Identifier: Apache-2.0
"""libmebp_text's chat templates by ctypes, and what Python's data path has for the same conversations."""

import ctypes
from collections.abc import Iterator, Sequence

from mebp.data.chat_template import ChatTemplate
from mebp.data.conversations import conversation_row, find_turns
from mebp.data.counting import Counting
from mebp.data.forms import Conversation
from mebp.data.turn_ends import TurnEnds
from mebp.data.turns import Message
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.library import MebpError, built
from support.text_tokenizer import TextTokenizer


class _Turn(ctypes.Structure):
    _fields_ = [("role", ctypes.c_char_p), ("text", ctypes.c_char_p), ("bytes", ctypes.c_size_t),
                ("learned", ctypes.c_bool)]  # fmt: skip


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
        self, messages: Sequence[Message], tokenizer: TextTokenizer, masked: frozenset[int], everything: bool
    ) -> tuple[list[int], list[int]]:
        """Ids and labels, with -100 where one does not count."""
        turns, count = _turns(messages, masked), ctypes.c_size_t()
        ids, labels = (ctypes.c_int32 * 0)(), (ctypes.c_int32 * 0)()
        for _ in range(2):
            self._call("mebp_chat_encode", self._chat, tokenizer.handle, turns, ctypes.c_uint32(len(turns)),
                       ctypes.c_bool(everything), ids, labels, ctypes.c_size_t(len(ids)),
                       ctypes.byref(count))  # fmt: skip
            if len(ids) < count.value:
                ids, labels = (ctypes.c_int32 * count.value)(), (ctypes.c_int32 * count.value)()
        return [*ids], [*labels]

    def prompt(self, messages: Sequence[Message], tokenizer: TextTokenizer) -> list[int]:
        turns, count, ids = _turns(messages, frozenset()), ctypes.c_size_t(), (ctypes.c_int32 * 4096)()
        self._call("mebp_chat_prompt", self._chat, tokenizer.handle, turns, ctypes.c_uint32(len(turns)), ids,
                   ctypes.c_size_t(len(ids)), ctypes.byref(count))  # fmt: skip
        return ids[: count.value]

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
