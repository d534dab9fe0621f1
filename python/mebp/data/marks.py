# SPDX-License-Identifier: Apache-2.0
"""Marks of what is not to be learned, on turns and on samples, in the forms that other trainers read; and weights."""

from collections.abc import Mapping

from mebp.errors import Error

# weight of OpenAI and Mistral, loss_mask of UI-TARS, train of Axolotl, trainable of verl, loss of ms-swift and XTuner,
# label of TRL's KTO.
WEIGHT = "weight"
MARKS = (WEIGHT, "loss_mask", "train", "trainable", "loss", "label")
LARGEST_WEIGHT = 1e6


def weight_of(where: str, entry: Mapping[str, object], weighs: bool | None = None) -> float:
    """How much a turn or a sample counts by its marks: 0 where one says that it is not to be learned, else 1, or with
    `weighs` its "weight". weighs: None where no option multiplies.

    A text under such a key, as a class's name under "label", marks nothing. Raises mebp.Error for a number that is
    none of these.
    """
    weight = 1.0
    for key in MARKS:
        value = entry.get(key)
        if not isinstance(value, (bool, int, float)):
            continue
        multiplies = weighs and key == WEIGHT
        if multiplies and not 0 <= value <= LARGEST_WEIGHT:
            raise Error(
                f'{where}: "{key}" is {value}; give a weight from 0, which leaves it out, to {LARGEST_WEIGHT:g}'
            )
        if not multiplies and value not in (0, 1):
            hint = "; with --turn-weights it multiplies" if key == WEIGHT and weighs is not None else ""
            raise Error(f'{where}: "{key}" is {value}; give 1 to learn it, or 0 to leave it out{hint}')
        weight *= float(value)
    return weight


def is_mark(key: str, value: object) -> bool:
    return key in MARKS and isinstance(value, (bool, int, float))
