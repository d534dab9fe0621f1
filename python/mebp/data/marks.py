# SPDX-License-Identifier: Apache-2.0
"""Marks of what is not to be learned, on turns and on samples, in the forms that other trainers read."""

from collections.abc import Mapping

from mebp.errors import Error

# weight of OpenAI and Mistral, loss_mask of UI-TARS, train of Axolotl, trainable of verl, loss of ms-swift and XTuner,
# label of TRL's KTO.
MARKS = ("weight", "loss_mask", "train", "trainable", "loss", "label")


def is_learned(where: str, entry: Mapping[str, object]) -> bool:
    """Whether no mark of a turn or a sample says that it is not to be learned.

    A text under such a key, as a class's name under "label", marks nothing. Raises mebp.Error for a number but 0 and 1.
    """
    learned = True
    for key in MARKS:
        value = entry.get(key)
        if not isinstance(value, (bool, int, float)):
            continue
        if value not in (0, 1):
            raise Error(f'{where}: "{key}" is {value}; give 1 to learn it, or 0 to leave it out')
        learned = learned and bool(value)
    return learned


def is_mark(key: str, value: object) -> bool:
    return key in MARKS and isinstance(value, (bool, int, float))
