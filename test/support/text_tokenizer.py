# SPDX-License-Identifier: Apache-2.0
"""libmebp_text's tokenizer by ctypes, as an app calls it."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

from mebp.errors import Error
from mebp.tools import find_tool


class _MebpError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _Token(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("begin", ctypes.c_size_t), ("end", ctypes.c_size_t)]


class TextTokenizer:
    """Of tokenizer.json's bytes, of a folder, or of a descriptor, an offset and a length."""

    def __init__(self, source: bytes | Path | tuple[int, int, int]) -> None:
        built = Path(find_tool("mebp-run")).resolve().parents[1]
        self._library, self.handle = ctypes.CDLL(str(built / "lib" / "libmebp_text.so")), ctypes.c_void_p()
        if isinstance(source, bytes):
            self._call("open_bytes", source, ctypes.c_size_t(len(source)), ctypes.byref(self.handle))
        elif isinstance(source, tuple):
            descriptor, offset, length = source
            self._call("open_file", descriptor, ctypes.c_uint64(offset), ctypes.c_uint64(length),
                       ctypes.byref(self.handle))  # fmt: skip
        else:
            self._call("open", str(source).encode(), ctypes.byref(self.handle))

    def close(self) -> None:
        self._library.mebp_tokenizer_close(self.handle)

    def _call(self, name: str, *arguments: object) -> None:
        error = _MebpError()
        if getattr(self._library, f"mebp_tokenizer_{name}")(*arguments, ctypes.byref(error)) != 0:
            raise Error(error.message.decode())

    def vocabulary(self) -> int:
        return self._library.mebp_tokenizer_vocabulary(self.handle)

    def id_of(self, token: str) -> int:
        found = ctypes.c_int32()
        self._call("id", self.handle, token.encode(), ctypes.byref(found))
        return found.value

    def encode(self, text: str | bytes, special: bool = False) -> list[int]:
        data, count = text if isinstance(text, bytes) else text.encode(), ctypes.c_size_t()

        def into(ids: object, room: int) -> None:
            size = ctypes.c_size_t(len(data))
            add, place = ctypes.c_bool(special), ctypes.c_size_t(room)
            self._call("encode", self.handle, data, size, add, ids, place, ctypes.byref(count))

        ids = (ctypes.c_int32 * (len(data) + 16))()
        into(ids, len(ids))
        if count.value > len(ids):
            ids = (ctypes.c_int32 * count.value)()
            into(ids, len(ids))
        return ids[: count.value]

    def place(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids, and the characters of the text that each stands for."""
        data, count = text.encode(), ctypes.c_size_t()
        size, tokens = ctypes.c_size_t(len(data)), (_Token * 0)()
        for _ in range(2):
            room = ctypes.c_size_t(len(tokens))
            self._call("place", self.handle, data, size, tokens, room, ctypes.byref(count))
            tokens = tokens if len(tokens) else (_Token * count.value)()
        begins = [0]  # of each byte, its character
        for character in text:
            begins += [begins[-1]] * (len(character.encode()) - 1) + [begins[-1] + 1]
        return [token.id for token in tokens], [(begins[token.begin], begins[token.end]) for token in tokens]

    def decode(self, ids: Sequence[int], skip: bool = False) -> str:
        given, size = (ctypes.c_int32 * (len(ids) or 1))(*ids), ctypes.c_size_t()
        for room in (0, None):
            text = ctypes.create_string_buffer(1 + (size.value if room is None else room))
            place = ctypes.c_size_t(len(text) - 1)
            count, skips = ctypes.c_size_t(len(ids)), ctypes.c_bool(skip)
            self._call("decode", self.handle, given, count, skips, text, place, ctypes.byref(size))
        return text.raw[: size.value].decode()

    def stream(self, ids: Sequence[int], skip: bool = False) -> list[str]:
        """Its pieces, each of which has to be UTF-8 by itself."""
        handle, text, size = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_size_t()
        self._call("stream_create", self.handle, ctypes.c_bool(skip), ctypes.byref(handle))
        pieces = []
        for index in ids:
            self._call("stream_push", handle, ctypes.c_int32(index), ctypes.byref(text), ctypes.byref(size))
            pieces.append(ctypes.string_at(text, size.value).decode())
        self._call("stream_finish", handle, ctypes.byref(text), ctypes.byref(size))
        pieces.append(ctypes.string_at(text, size.value).decode())
        self._library.mebp_tokenizer_stream_free(handle)
        return pieces
