# SPDX-License-Identifier: Apache-2.0
"""What this package is called in `mebp --version`: CMakeLists.txt says it, and the extension was built with it."""

from mebp.extension import load_runtime

__version__: str = load_runtime().__version__
