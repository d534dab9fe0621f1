# SPDX-License-Identifier: Apache-2.0
"""One step on one device: python -m mebp.device_parity.measure TASK, as mebp.parity calls it."""

import json
import statistics
import sys

import numpy as np

from mebp.errors import Error
from mebp.memory import anonymous_bytes
from mebp.session import Session
from mebp.verification.inputs import random_batch, randomise_adapter
from mebp.words import say

_WARM, _TIMED = 2, 3  # a device may compile a program in its first steps


def measure(task: dict) -> dict:
    """Writes the gradients to task["gradients"]; returns loss, seconds, bytes and the kernels' name."""
    before = anonymous_bytes()
    # Gradients are the same for every optimizer; at rate zero SGD changes nothing.
    session = Session(task["bundle"], task["device"], task["threads"], optimizer="sgd", momentum=0.0, lr=0.0)
    if task["adapter"]:
        session.load_adapter(task["adapter"])
    else:
        randomise_adapter(session, scale=0.02)  # of a size that training gives
    ids, labels = random_batch(session, task["sequence"])
    steps = [session.step(ids, labels) for _ in range(_WARM + _TIMED)]
    loss, gradients = session.loss_and_gradients(ids, labels)
    np.savez(task["gradients"], **gradients)
    return {
        "loss": loss,
        "seconds": statistics.median(step.seconds for step in steps[_WARM:]),
        "peak_bytes": max(0, steps[-1].peak_bytes - before),
        "kernels": session.kernels,
    }


if __name__ == "__main__":
    try:
        say(json.dumps(measure(json.loads(sys.argv[1]))))
    except Error as error:
        sys.exit(f"mebp: {error}")
