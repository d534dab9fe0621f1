# SPDX-License-Identifier: Apache-2.0
"""Layers that predict tokens further ahead (nextn, or mtp): a file has them behind the others, and nothing here trains
them."""

import re
from dataclasses import replace

from mebp.gguf.container import Container
from mebp.words import counted, say

_LAYER = re.compile(r"blk\.([0-9]{1,9})\.")


def say_left_out(what: str, count: int) -> None:
    """Of so many layers of `what`, if there are any."""
    if count:
        say(f"note: {what}: what predicts tokens further ahead (nextn, {counted(count, 'layer')}) is left out",
            error=True)  # fmt: skip


def layers_ahead(container: Container) -> int:
    """How many there are."""
    name = container.text("general.architecture")
    return container.whole(f"{name}.nextn_predict_layers") or 0


def without_ahead(container: Container) -> Container:
    """The file with the tensors of the other layers alone."""
    ahead = layers_ahead(container)
    if not ahead:
        return container
    count = (container.whole(f"{container.text('general.architecture')}.block_count", needed=True)) - ahead
    return replace(container, tensors=[each for each in container.tensors if _layer(each.name) < count])


def _layer(name: str) -> int:
    found = _LAYER.match(name)
    return int(found[1]) if found else -1
