# SPDX-License-Identifier: Apache-2.0
"""llama.cpp by its C library, from the wheel of xllamacpp: logits of a GGUF file, with an adapter or without."""

import ctypes as c
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from support.judges import judge

_int, _uint, _float, _pointer, _bool = c.c_int32, c.c_uint32, c.c_float, c.c_void_p, c.c_bool


class _ModelOptions(c.Structure):
    _fields_ = [
        *[(name, _pointer) for name in ("devices", "overrides")],
        *[(name, _int) for name in ("gpu_layers", "split", "load", "lazy", "main_gpu")],
        *[(name, _pointer) for name in ("tensor_split", "progress", "progress_data", "values")],
        *[(name, _bool) for name in ("vocabulary_only", "check", "extra_buffers", "no_host", "no_memory", "mtp")],
    ]


class _ContextOptions(c.Structure):
    _fields_ = [
        *[(name, _uint) for name in ("length", "batch", "micro_batch", "sequences", "rs", "outputs", "each_outputs")],
        *[(name, _int) for name in ("threads", "batch_threads", "kind", "rope", "pooling", "attention", "flash")],
        *[(name, _float) for name in ("rope_base", "rope_scale", "y_ext", "y_attention", "y_fast", "y_slow")],
        ("y_length", _uint),
        ("defragment", _float),
        *[(name, _pointer) for name in ("callback", "callback_data")],
        *[(name, _int) for name in ("keys", "values")],
        ("moe_cache", c.c_size_t),
        *[(name, _pointer) for name in ("abort", "abort_data")],
        *[(name, _bool) for name in ("embeddings", "offload", "no_time", "op_offload", "swa_full", "unified")],
        ("samplers", _pointer),
        ("samplers_count", c.c_size_t),
        ("other", _pointer),
    ]


class _Batch(c.Structure):
    _fields_ = [("count", _int), *[(name, _pointer) for name in ("tokens", "embeddings", "positions", "sequence_counts",
                                                                "sequences", "outputs")]]  # fmt: skip


_LOGGER = c.CFUNCTYPE(None, c.c_int, c.c_char_p, _pointer)
_F32 = 0  # of keys and values


class LlamaCpp:
    """What the library prints is in `said`."""

    def __init__(self, library: Path) -> None:
        c.PyDLL(str(library))  # it needs the interpreter's symbols
        self._library = c.CDLL(str(library))
        self.said: list[str] = []
        self._logger = _LOGGER(lambda level, text, _: self.said.append(text.decode("utf-8", "replace")))
        self._call("llama_log_set", None, self._logger, _pointer(None))
        self._call("llama_backend_init", None)
        options = self._call("llama_context_default_params", _ContextOptions)
        # The structures are those of one version: where they differ, so do these.
        assert (options.length, options.batch, options.micro_batch, options.threads) == (512, 2048, 512, 4)
        assert (options.keys, options.values, options.flash, options.defragment) == (1, 1, -1, -1)
        assert options.offload and options.no_time and not options.unified

    def logits(self, model: Path, ids: np.ndarray, adapter: Path | None = None) -> np.ndarray:
        """float32 [sequence, vocabulary] of the ids [sequence], computed and kept in float32."""
        loaded = self._load(model)
        options = self._call("llama_context_default_params", _ContextOptions)
        options.length, options.threads, options.batch_threads, options.flash = max(256, len(ids)), 1, 1, 0
        options.keys = options.values = _F32
        context = _pointer(self._call("llama_init_from_model", _pointer, loaded, options))
        assert context, self.errors()
        try:
            if adapter is not None:
                lora = self._call("llama_adapter_lora_init", _pointer, loaded, bytes(adapter))
                assert lora, self.errors()
                wrong = self._call("llama_set_adapters_lora", _int, context, (_pointer * 1)(lora), c.c_size_t(1),
                                   (_float * 1)(1.0))  # fmt: skip
                assert wrong == 0
            count = len(ids)
            every = (_pointer * count)(*[c.addressof(self._sequence)] * count)
            fields = [(_int * count)(*map(int, ids)), None, (_int * count)(*range(count)), (_int * count)(*[1] * count),
                      every, (c.c_int8 * count)(*[1] * count)]  # fmt: skip
            batch = _Batch(count, *(field and c.cast(field, _pointer) for field in fields))
            assert self._call("llama_decode", _int, context, batch) == 0, self.errors()
            width = self._call("llama_vocab_n_tokens", _int, self._vocabulary(loaded))
            found = self._call("llama_get_logits", c.POINTER(_float), context)
            return np.ctypeslib.as_array(found, (count, width)).copy()
        finally:
            self._call("llama_free", None, context)
            self._call("llama_model_free", None, loaded)

    def tokenize(self, model: Path, text: str, vocabulary_only: bool = False, around: bool = False) -> list[int]:
        """around: with what the model has before and behind a text."""
        loaded = self._load(model, vocabulary_only)
        raw, room = text.encode(), (_int * (len(text) * 4 + 16))()
        count = self._call("llama_tokenize", _int, self._vocabulary(loaded), raw, _int(len(raw)), room, _int(len(room)),
                           _bool(around), _bool(True))  # fmt: skip
        self._call("llama_model_free", None, loaded)
        return list(room[:count])

    def errors(self) -> str:
        return "".join(self.said[-20:])

    _sequence = _int(0)

    def _load(self, model: Path, vocabulary_only: bool = False) -> _pointer:
        options = self._call("llama_model_default_params", _ModelOptions)
        options.gpu_layers, options.vocabulary_only = 0, vocabulary_only
        loaded = self._call("llama_model_load_from_file", _pointer, bytes(model), options)
        assert loaded, self.errors()
        return _pointer(loaded)

    def _vocabulary(self, loaded: _pointer) -> _pointer:
        return _pointer(self._call("llama_model_get_vocab", _pointer, loaded))

    def _call(self, name: str, result: type | None, *arguments: object) -> object:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, [type(argument) if not isinstance(argument, bytes) else c.c_char_p
                                                       for argument in arguments]  # fmt: skip
        return function(*arguments)


@cache
def opened() -> LlamaCpp:
    package = judge("xllamacpp")
    return LlamaCpp(next(Path(package.__file__).parent.glob("xllamacpp*.so")))


@pytest.fixture(scope="session")
def llama_cpp() -> LlamaCpp:
    return opened()
