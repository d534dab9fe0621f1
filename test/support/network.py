# SPDX-License-Identifier: Apache-2.0
"""A machine that reaches nobody."""

import socket

import pytest


def without_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every try to reach another machine fails, and is in this list: libraries may hide the error."""
    tried: list[object] = []

    def fail(*arguments: object, **_: object) -> None:
        tried.append(arguments[-1] if arguments else None)
        raise OSError("there is no network in this test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, fail)
    for name in ("create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, fail)
    return tried
