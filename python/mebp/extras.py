# SPDX-License-Identifier: Apache-2.0
"""Packages that only some commands need: `pip install .` brings what training needs."""

from importlib import import_module

from mebp.errors import Error, reason


def need_packages(purpose: str, extra: str, *packages: str) -> None:
    """Imports the packages; raises Error with the first that cannot be, and the extra that brings it."""
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            raise Error(
                f"{purpose} needs {package} ({reason(error)}); install it with: pip install 'mebp[{extra}]'"
            ) from error
