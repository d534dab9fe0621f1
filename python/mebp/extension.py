# SPDX-License-Identifier: Apache-2.0
"""The compiled part of this package."""

from types import ModuleType

from mebp.errors import Error


def load_runtime() -> ModuleType:
    """The extension; raises mebp.Error where it is not built."""
    try:
        from mebp import _runtime
    except ImportError as error:
        raise Error(f"the runtime's extension cannot be loaded ({error}); build it with make") from error
    return _runtime
