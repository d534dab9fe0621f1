# SPDX-License-Identifier: Apache-2.0
"""Other versions of packages than those that are installed."""

import functools

import pytest

from mebp import extras


def pretend(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """As if these were installed and not named yet; of other packages the oldest that is tried."""
    monkeypatch.setattr(extras, "installed", lambda package: versions.get(package, extras.RANGES[package].first))
    monkeypatch.setattr(extras, "_warn", functools.cache(extras._warn.__wrapped__))
