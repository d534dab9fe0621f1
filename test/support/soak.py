# SPDX-License-Identifier: Apache-2.0
"""Whether a run is `make soak`'s (MEBP_SOAK), which takes the sizes of the figures in docs/measurements.md. `make test`
takes smaller ones, that prove the same."""

import os

SOAK = bool(os.environ.get("MEBP_SOAK"))
