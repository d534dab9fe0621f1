# SPDX-License-Identifier: Apache-2.0
"""Whatever a user can call says what it does."""

import dataclasses
import inspect
import re

import pytest

import mebp
from mebp.training.options import TrainingOptions


def public_names() -> list[str]:
    names = list(mebp.__all__)
    for owner in (mebp.Session, mebp.LoRA, mebp.StepResult, mebp.Error):
        members = [f"{owner.__name__}.{key}" for key in vars(owner) if not key.startswith("_")]
        names += [name for name in members if name.split(".")[1] not in getattr(owner, "__dataclass_fields__", {})]
    return names


@pytest.mark.parametrize("name", public_names())
def test_it_has_a_docstring(name):
    value = mebp
    for part in name.split("."):
        value = getattr(value, part)
    assert value.__doc__ and not value.__doc__.startswith(f"{name}("), name  # nor the one that dataclasses make up


@pytest.mark.parametrize("function", ["export", "compile", "merge", "train", "verify"])
def test_it_names_its_arguments_and_errors(function):
    value = getattr(mebp, function)
    assert "Raises" in value.__doc__
    assert not [name for name in inspect.signature(value).parameters if name not in value.__doc__]


def test_train_names_every_option():
    options = [field.name for field in dataclasses.fields(TrainingOptions)]
    assert not [name for name in options if not re.search(rf"\b{name}\b", mebp.train.__doc__)]
