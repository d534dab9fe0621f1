# SPDX-License-Identifier: Apache-2.0
"""Packages that only some commands need, and the versions of them that are tried: `pip install .` brings what training
needs."""

import functools
import re
from importlib import import_module
from typing import NamedTuple

from mebp.errors import Error, reason
from mebp.words import say


class Range(NamedTuple):
    """The oldest version, and where newer ones break what works, the newest that the tests try."""

    first: str
    last: str | None = None

    def __str__(self) -> str:
        return f"{self.first} to {self.last}" if self.last else f"{self.first} or newer"


# As pyproject.toml has them. `scripts/soak.sh oldest` tries the first of each, all other tests the last.
RANGES = {
    "torch": Range("2.9.1", "2.13"),
    "transformers": Range("5.8", "5.18"),
    "onnx_ir": Range("1.1"),
    "onnxscript": Range("0.7"),
    "peft": Range("0.19.1"),
    "gguf": Range("0.19"),
    "pyarrow": Range("18"),
    "huggingface_hub": Range("1"),
    "cryptography": Range("42"),
    "lm_eval": Range("0.4.13"),
    "ray": Range("2.60"),
    "pandas": Range("2"),
}
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def need_packages(purpose: str, extra: str, *packages: str) -> None:
    """Imports the packages; raises Error with the first that cannot be, or is older than what is tried, and the extra
    that brings it. One that is newer is named once."""
    for package in packages:
        found, advice = installed(package), f"install it with: pip install 'mebp[{extra}]'"
        # Before it is imported, which may take seconds.
        if is_older(package, RANGES[package].first):
            raise Error(f"{purpose} needs {package} {RANGES[package]} ({found} is installed); {advice}")
        if _is_newer(package):
            _warn(package, found, advice)
        try:
            import_module(package)
        except ImportError as error:
            raise Error(f"{purpose} needs {package} ({reason(error)}); {advice}") from error


def installed(package: str) -> str | None:
    """Its version; None where it is not there, or does not say."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_older(package: str, than: str) -> bool:
    found = _release(installed(package))
    return found is not None and found < _release(than)


def _is_newer(package: str) -> bool:
    """A later release of the last one's series is not."""
    found, last = _release(installed(package)), _release(RANGES[package].last)
    return found is not None and last is not None and found[: len(last)] > last


def _release(name: str | None) -> tuple[int, ...] | None:
    """(2, 9, 1) of 2.9.1+cpu; None of what says no version."""
    found = _RELEASE.match(name or "")
    return tuple(map(int, found[0].split("."))) if found else None


@functools.cache
def _warn(package: str, found: str, advice: str) -> None:
    say(f"warning: mebp is tried with {package} {RANGES[package]}, not with {found}; if it fails, {advice}", error=True)
