# SPDX-License-Identifier: Apache-2.0
"""libmebp by ctypes, as an app calls it: what Python does in its own way."""

import ctypes
from pathlib import Path

from mebp.errors import Error
from mebp.tools import find_tool

_LARGEST = 4096  # bytes of a struct that may grow; what is past its end is zero


class MebpError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


def built(name: str) -> str:
    """A file of the build, as lib/libmebp_text.so."""
    return str(Path(find_tool("mebp-run")).resolve().parents[1] / name)


def save_adapter_gguf(bundle: Path, adapter: Path, file: Path) -> None:
    """A session of the bundle takes the adapter, a folder of PEFT's form, and writes llama.cpp's."""
    library, error = ctypes.CDLL(built("libmebp.so")), MebpError()

    def call(name: str, *arguments: object) -> None:
        if getattr(library, name)(*arguments, ctypes.byref(error)) != 0:
            raise Error(error.message.decode())

    opened, session = ctypes.c_void_p(), ctypes.c_void_p()
    options = ctypes.create_string_buffer(_LARGEST)
    call("mebp_bundle_open", str(bundle).encode(), ctypes.byref(opened))
    try:
        library.mebp_session_options_init_sized(options, ctypes.c_size_t(_LARGEST))
        call("mebp_session_create", opened, options, ctypes.byref(session))
        call("mebp_session_load_adapter", session, str(adapter).encode())
        call("mebp_session_save_adapter_gguf", session, str(file).encode())
    finally:
        library.mebp_session_destroy(session)
        library.mebp_bundle_close(opened)
