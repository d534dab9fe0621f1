# SPDX-License-Identifier: Apache-2.0
"""Training data: a file's samples, the rows of tokens they become, and the rows' order."""

from mebp.data.dataset import Dataset, Row
from mebp.data.loading import load_dataset

__all__ = ["Dataset", "Row", "load_dataset"]
