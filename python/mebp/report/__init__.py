# SPDX-License-Identifier: Apache-2.0
"""A bundle's memory over one training step, as one HTML page that needs nothing else."""

from mebp.report.page import write_report

__all__ = ["write_report"]
