# SPDX-License-Identifier: Apache-2.0
"""libmebp_grpc by ctypes, as mebp/grpc.h and mebp/transport.h declare it: tests in Python can put a relay between."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mebp.tools import find_tool

OK, CORRUPT, DISCONNECTED, REFUSED = 0, 3, 14, 15
FOREVER = 2**32 - 1


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


_ERROR = ctypes.POINTER(_Error)
_SIZE = ctypes.c_size_t


class _Transport(ctypes.Structure):
    _fields_ = [
        ("size", _SIZE),
        ("user", ctypes.c_void_p),
        ("open", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, _ERROR)),
        (
            "send",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, _SIZE, ctypes.c_char_p, _SIZE, _ERROR),
        ),
        (
            "receive",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_char_p,
                _SIZE,
                ctypes.c_char_p,
                _SIZE,
                ctypes.POINTER(_SIZE),
                ctypes.c_uint32,
                _ERROR,
            ),
        ),
        ("close", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", _SIZE),
        ("address", ctypes.c_char_p),
        ("certificate", ctypes.c_char_p),
        ("key", ctypes.c_char_p),
        ("authority", ctypes.c_char_p),
        ("server_name", ctypes.c_char_p),
        ("plain_text", ctypes.c_bool),
        ("frames", ctypes.c_uint32),
        ("frame_bytes", ctypes.c_uint64),
        ("silence_ms", ctypes.c_uint32),
        ("streams", ctypes.c_uint32),
    ]


_SERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Transport), ctypes.c_char_p)


class StreamError(Exception):
    def __init__(self, error: _Error) -> None:
        super().__init__(error.message.decode())
        self.code = error.code


class Stream:
    def __init__(self, transport: _Transport, frame_bytes: int) -> None:
        self._transport = transport
        self._room = ctypes.create_string_buffer(frame_bytes)
        self._frame_bytes = frame_bytes

    def open(self, timeout_ms: int = 10_000) -> None:
        _check(lambda error: self._transport.open(self._transport.user, timeout_ms, error))

    def send(self, body: bytes) -> None:
        _check(lambda error: self._transport.send(self._transport.user, None, 0, body, len(body), error))

    def receive(self, timeout_ms: int = 10_000) -> bytes:
        size = _SIZE()
        _check(
            lambda error: self._transport.receive(
                self._transport.user, None, 0, self._room, self._frame_bytes, ctypes.byref(size), timeout_ms, error
            )
        )
        return self._room.raw[: size.value]

    def close(self) -> None:
        self._transport.close(self._transport.user)


def _check(call: Callable[[object], int]) -> None:
    error = _Error()
    if call(ctypes.byref(error)) != OK:
        raise StreamError(error)


def library() -> ctypes.CDLL:
    path = Path(find_tool("mebpc")).resolve().parents[1] / "lib" / "libmebp_grpc.so"
    if not path.exists():
        pytest.skip("built without gRPC")
    return ctypes.CDLL(os.fspath(path))


def _options(address: str, side: str, certificates: Path, frame_bytes: int, silence_ms: int) -> _Options:
    paths = [os.fsencode(certificates / name) for name in (f"{side}.pem", f"{side}.key", "ca.pem")]
    return _Options(ctypes.sizeof(_Options), address.encode(), *paths, None, False, 8, frame_bytes, silence_ms, 64)


@contextmanager
def server(
    certificates: Path, serve: Callable[[Stream], None], frame_bytes: int = 1 << 20, silence_ms: int = 20_000
) -> Iterator[int]:
    """Yields the port of a server that lets `serve` have each stream."""
    grpc = library()

    def call(_: object, transport: object, __: bytes) -> None:
        serve(Stream(transport.contents, frame_bytes))

    kept = _SERVE(call)
    options = _options("127.0.0.1:0", "server", certificates, frame_bytes, silence_ms)
    handle = ctypes.c_void_p()
    _check(lambda error: grpc.mebp_grpc_server_start(ctypes.byref(options), kept, None, ctypes.byref(handle), error))
    try:
        yield grpc.mebp_grpc_server_port(handle)
    finally:
        grpc.mebp_grpc_server_stop(handle)


@contextmanager
def device(certificates: Path, port: int, frame_bytes: int = 1 << 20, silence_ms: int = 20_000) -> Iterator[Stream]:
    """Yields a stream to 127.0.0.1:`port` that is not opened yet."""
    grpc = library()
    options = _options(f"127.0.0.1:{port}", "client", certificates, frame_bytes, silence_ms)
    handle, transport = ctypes.c_void_p(), _Transport(ctypes.sizeof(_Transport))
    _check(lambda error: grpc.mebp_grpc_connection_create(ctypes.byref(options), ctypes.byref(handle), error))
    _check(lambda error: grpc.mebp_grpc_stream_create(handle, ctypes.byref(transport), error))
    try:
        yield Stream(transport, frame_bytes)
    finally:
        grpc.mebp_grpc_stream_free(ctypes.byref(transport))
        grpc.mebp_grpc_connection_free(handle)


def echo(stream: Stream) -> None:
    try:
        while True:
            stream.send(stream.receive(FOREVER))
    except StreamError:
        pass
