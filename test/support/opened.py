# SPDX-License-Identifier: Apache-2.0
"""Stands in for a bundle that the runtime has opened."""


class Opened:
    """A bundle whose manifest is what it was given."""

    def __init__(self, manifest: bytes) -> None:
        self._manifest = manifest

    def manifest(self) -> str:
        return self._manifest.decode()

    def describe(self) -> str:
        return "{}"
