# SPDX-License-Identifier: Apache-2.0
"""The planned peak of each of several processes against what the operating system counts."""

import json

import pytest

from support.torchrun import torchrun

PROCESSES, EACH = 2, 2  # micro-batches of each
NEAR = 0.02  # what torch's threads and Python's objects take, 1 to 2 MB, is not planned
# Reads, until its input ends, what a process has: the most of anonymous memory, and of the weights' pages, in bytes. It
# is a process of its own, for maps are a megabyte of text.
WATCH = """
import itertools, re, select, sys
from pathlib import Path

proc, most, mapped = Path("/proc", sys.argv[1]), 0, 0
print("begins", flush=True)
for number in itertools.count():
    if select.select([sys.stdin], [], [], 0.002)[0]:
        break
    most = max(most, int(re.search(r"RssAnon:\\s+([0-9]+)", (proc / "status").read_text())[1]) << 10)
    if number % 100 == 0:  # for it takes long
        maps = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", (proc / "smaps").read_text())
        weights = (re.search(r"Rss: +([0-9]+)", each)[1] for each in maps if "weights.bin" in each)
        mapped = max(mapped, sum(map(int, weights)) << 10)
print(most, mapped)
"""
# What is imported and what Python reads of the bundle is there before; what torch has for a group, too.
PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
import numpy as np
import mebp.distributed.global_batch as global_batch
from mebp.distributed.group import joined
from mebp.inspect import inspect
from mebp.memory import anonymous_bytes
from mebp.session import Session

_, bundle, each, shard, watch = sys.argv
group = joined()
inspect(bundle)
count = int(each) * group.size
global_batch._COMPARED_EVERY = 2
watcher = subprocess.Popen([sys.executable, "-c", watch, str(os.getpid())], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
watcher.stdout.readline()
before = anonymous_bytes()
shared = global_batch.GlobalBatch(count, group, shard, "tree", Path(bundle))
session = Session(bundle, threads=1, **shared.session_options())
planned = session.plan["planned_peak_bytes"] + shared.bytes_beside(session)
shared.begin_alike(session, None)
random = np.random.default_rng(0)
for _ in range(3):
    rows = [random.integers(0, 49152, (1, 512), dtype=np.int32) for _ in range(count)]
    shared.step(session, (rows, rows, None))
most, mapped = map(int, watcher.communicate()[0].split())
all_of_it = [end - begin for begin, end in session.native.own_elements(0, 1)]
owned = sum(end - begin for begin, end in session.native.own_elements(group.rank, group.size)) / sum(all_of_it)
size = os.path.getsize(Path(bundle) / "weights.bin")
found = [planned, most - before, session.native.arena_bytes(), owned, mapped / size]
print(json.dumps(found) + "\\n", end="", flush=True)
shared.leave()
"""


@pytest.mark.parametrize("shard", ["none", "optimizer", "weights"])
def test_the_plan_of_each_process_holds(smollm2, tmp_path, show, shard):
    """With values that rank 0 sends, sums that go on beside the step, and a comparison of the adapters."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    status, out, err = torchrun(PROCESSES, program, smollm2.bundle, EACH, shard, WATCH)
    assert status == 0, err
    found = [json.loads(line) for line in out.splitlines() if line.startswith("[")]
    assert len(found) == PROCESSES
    for planned, measured, arena, owned, mapped in found:
        show(
            f"SmolLM2-135M, 512 tokens, adamw, --shard {shard}, a process of {PROCESSES}: planned {planned / 1e6:.1f} "
            f"MB, measured {measured / 1e6:.1f} MB ({measured / planned - 1:+.1%}); the session {arena / 1e6:.1f} MB; "
            f"{owned:.1%} of the optimizer's state, {mapped:.1%} of the weights"
        )
        assert abs(measured / planned - 1) <= NEAR
        if shard != "none":
            assert owned <= 1 / PROCESSES + 0.01
        if shard == "weights":
            assert mapped <= 1 / PROCESSES + 0.02
