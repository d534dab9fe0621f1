# SPDX-License-Identifier: Apache-2.0
"""What one of several processes does for bench/scale.py and bench/ddp.py, under torchrun or, for `alone`, without it.

    PYTHONPATH=bench torchrun ... bench/parts/process_steps.py HOW BUNDLE COUNT ROUNDS [DELAY ... | MODEL]

alone: seconds of COUNT micro-batches in one process with one thread, and of the forward of one of them.
collectives: seconds of a sum over all, by its bytes, and of a number from each.
steps: seconds of a step of COUNT micro-batches over all processes, for each delay (s) that is put into what they send.
beside: seconds of such a step, and of one of torch's DistributedDataParallel with PEFT on MODEL, in turns.
Rank 0 prints JSON.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from mebp.distributed.global_batch import GlobalBatch
from mebp.distributed.group import Group
from mebp.distributed.tree import TreeSum
from mebp.session import Session

LENGTH = 256
SIZES = (1 << 14, 1 << 17, 1 << 19, 1 << 20)  # values of a sum; the last is a bucket of mebp's


class Delayed(Group):
    """As if each message took `delay` seconds longer."""

    delay = 0.0

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        time.sleep(self.delay)
        super().exchange(sent, received)

    def _gather(self, own: np.ndarray) -> np.ndarray:
        time.sleep(self.delay)
        return super()._gather(own)


def seconds_of(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def rows(session: Session, count: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, session.vocabulary, (1, LENGTH), dtype=np.int32) for _ in range(count)]


def alone(bundle: str, count: int, rounds: int) -> dict[str, float]:
    """One step is not timed."""
    shared = GlobalBatch(count)
    session = Session(bundle, threads=1, **shared.session_options())
    ids = rows(session, count)
    shared.step(session, (ids, ids, None))
    steps = [seconds_of(lambda: shared.step(session, (ids, ids, None))) for _ in range(rounds)]
    forward = [seconds_of(lambda: session.loss(ids[0], ids[0])) for _ in range(rounds)]
    return {"step": statistics.median(steps), "forward": statistics.median(forward)}


def collectives(group: Group, rounds: int) -> dict[str, object]:
    tree = TreeSum(group, max(SIZES))

    def seconds_of_sums(count: int) -> float:
        tree.sum(count)
        group.gather([0])
        return statistics.median(seconds_of(lambda: tree.sum(count)) for _ in range(10 * rounds))

    found = {4 * count: seconds_of_sums(count) for count in SIZES}
    return {"sums": found, "number": statistics.median(seconds_of(lambda: group.gather([0])) for _ in range(50))}


def steps(group: Delayed, bundle: str, count: int, rounds: int, delays: Sequence[float]) -> dict[str, float]:
    shared = GlobalBatch(count, group)
    session = Session(bundle, threads=1, **shared.session_options())
    ids = rows(session, count)
    shared.step(session, (ids, ids, None))
    found: dict[float, list[float]] = {delay: [] for delay in delays}
    for _ in range(rounds):
        for group.delay in delays:
            found[group.delay].append(seconds_of(lambda: shared.step(session, (ids, ids, None))))
    return {str(delay): statistics.median(times) for delay, times in found.items()}


def beside(group: Group, bundle: str, count: int, rounds: int, model: str) -> dict[str, list[float]]:
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from transformers import AutoModelForCausalLM

    from mebp.verification.reference import Reference

    torch.set_num_threads(1)
    shared = GlobalBatch(count, group)
    session = Session(bundle, threads=1, **shared.session_options())
    base = AutoModelForCausalLM.from_pretrained(model, trust_remote_code=False, use_safetensors=True).float()
    reference = Reference(base, session.base_weights(), session.trainables(), 16, torch.float32)
    reference.model = DistributedDataParallel(reference.model)
    optimizer = torch.optim.AdamW(reference.parameters().values(), lr=2e-4, weight_decay=0)
    ids, own = rows(session, count), shared.own
    labels = count * (LENGTH - 1)

    def of_torch() -> None:
        optimizer.zero_grad()
        for number in own:
            reference.model.require_backward_grad_sync = number == own[-1]
            row = torch.from_numpy(ids[number].astype(np.int64))
            logits = reference.model(input_ids=row, use_cache=False).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="sum") / labels
            (loss * group.size).backward()  # of which the ranks' mean is taken
        optimizer.step()

    ways = {"mebp": lambda: shared.step(session, (ids, ids, None)), "DDP": of_torch}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, step in ways.items():
            group.gather([0])
            taken = seconds_of(step)
            if number:  # the first is not timed
                found[name].append(taken)
    return found


def main() -> None:
    how, bundle, count, rounds, *more = sys.argv[1:]
    group = None if how == "alone" else Delayed()
    if how == "alone":
        found: object = alone(bundle, int(count), int(rounds))
    elif how == "collectives":
        found = collectives(group, int(rounds))
    elif how == "steps":
        found = steps(group, bundle, int(count), int(rounds), [float(each) for each in more])
    else:
        found = beside(group, bundle, int(count), int(rounds), *more)
    if group is None or group.is_first:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
