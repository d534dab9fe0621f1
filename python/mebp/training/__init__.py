# SPDX-License-Identifier: Apache-2.0
"""The training loop behind `mebp train`."""
