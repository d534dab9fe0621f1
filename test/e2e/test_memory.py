# SPDX-License-Identifier: Apache-2.0
"""The planned peak against what the operating system counts while mebp-run trains."""

import numpy as np
from parts.process_memory import watch

import mebp
from mebp.tools import find_tool

STEPS = 3
# The plan counts 1 MB for the runtime itself, part of which is not taken: bench/memory.py finds 0.4 to 1.1 MB less than
# planned in every shape, and never more.
MOST_UNUSED = 0.02


def test_the_plan_holds(smollm2, tmp_path, show):
    plan = mebp.Session(smollm2.bundle).plan
    tokens = np.random.default_rng(0).integers(0, 49152, (STEPS, 512), dtype=np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    command = [find_tool("mebp-run"), str(smollm2.bundle), "--tokens", str(tmp_path / "tokens.npy")]
    command += ["--steps", str(STEPS), "--optimizer", "adamw", "--threads", str(plan["threads"])]
    measured = watch(command, interval=0.002)[0].written
    show(
        f"SmolLM2-135M, 512 tokens, adamw: planned {plan['peak_bytes'] / 1e6:.1f} MB, "
        f"measured {measured / 1e6:.1f} MB ({measured / plan['peak_bytes'] - 1:+.1%})"
    )
    assert 1 - MOST_UNUSED <= measured / plan["peak_bytes"] <= 1
