# SPDX-License-Identifier: Apache-2.0
"""What an older torch or transformers lacks: models that mebp trains with the newest that it is tried with."""

from mebp import extras
from mebp.models import tried_models
from mebp.words import listed


def later_advice(kind: str, *packages: str) -> str | None:
    """Which of the packages to update for a model of this type; None where that would not help."""
    newest = {package: extras.RANGES[package].last for package in packages}
    older = {package: last for package, last in newest.items() if extras.is_older(package, last)}
    if not older or not any(each.name == kind and each.outcome == "exact" for each in tried_models().types):
        return None
    wanted = [f"{package} {last} ({extras.installed(package)} is installed)" for package, last in older.items()]
    given = " ".join(f"'{package}=={last}.*'" for package, last in older.items())
    return f"mebp trains it with {listed(wanted, 'and')}; update with: pip install {given}"
