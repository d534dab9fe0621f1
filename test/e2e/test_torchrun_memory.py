# SPDX-License-Identifier: Apache-2.0
"""The planned peak of each of several processes against what the operating system counts."""

import json

from support.torchrun import torchrun

PROCESSES, EACH = 2, 2  # micro-batches of each
NEAR = 0.02
# What is imported and what Python reads of the bundle is there before; what torch has for a group, too.
PROGRAM = """
import json, sys, threading
import numpy as np
import mebp.distributed.global_batch as global_batch
from mebp.distributed.group import joined
from mebp.inspect import inspect
from mebp.memory import anonymous_bytes
from mebp.session import Session

_, bundle, each = sys.argv
group = joined()
inspect(bundle)
before, most, ended = anonymous_bytes(), 0, threading.Event()

def watch():
    global most
    while not ended.wait(0.002):
        most = max(most, anonymous_bytes())

threading.Thread(target=watch).start()
count = int(each) * group.size
global_batch._COMPARED_EVERY = 2
shared = global_batch.GlobalBatch(count, group)
session = Session(bundle, threads=1, **shared.session_options())
planned = session.plan["planned_peak_bytes"] + shared.bytes_beside(session)
shared.begin_alike(session)
random = np.random.default_rng(0)
for _ in range(3):
    rows = [random.integers(0, 49152, (1, 512), dtype=np.int32) for _ in range(count)]
    result = shared.step(session, (rows, rows, None))
ended.set()
print(json.dumps([planned, max(most, result.peak_bytes) - before]))
"""


def test_the_plan_of_each_process_holds(smollm2, tmp_path, show):
    """With a state that rank 0 sends, sums that go on beside the step, and a comparison of the adapters."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    status, out, err = torchrun(PROCESSES, program, smollm2.bundle, EACH)
    assert status == 0, err
    found = [json.loads(line) for line in out.splitlines() if line.startswith("[")]
    assert len(found) == PROCESSES
    for planned, measured in found:
        show(
            f"SmolLM2-135M, 512 tokens, adamw, a process of {PROCESSES}: planned {planned / 1e6:.1f} MB, "
            f"measured {measured / 1e6:.1f} MB ({measured / planned - 1:+.1%})"
        )
        assert abs(measured / planned - 1) <= NEAR
