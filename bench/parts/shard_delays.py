# SPDX-License-Identifier: Apache-2.0
"""A process of several that share out a model's weights, whose ways are longer by given delays.

    torchrun --nproc-per-node 2 -m parts.shard_delays BUNDLE LENGTH ROUNDS FACTOR...

Rank 0 prints JSON: the seconds of a block's forward, the regions that a step asks for, and for each factor, by which
that forward is multiplied for a delay, the seconds of a step in each round.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from mebp.distributed import global_batch
from mebp.distributed.choices import WEIGHTS
from mebp.distributed.group import joined
from mebp.distributed.weights import ShardedWeights
from mebp.session import Session


class Delayed(ShardedWeights):
    delay, asked = 0.0, 0

    def _fetch(self, block: int, memory: np.ndarray) -> None:
        self.asked += 1
        time.sleep(self.delay)
        super()._fetch(block, memory)


def main() -> None:
    bundle, length, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    factors = [float(each) for each in sys.argv[4:]]
    group = joined()
    weights = Delayed.of_bundle(group, bundle)
    global_batch.ShardedWeights = type("Given", (), {"of_bundle": staticmethod(lambda *_: weights)})
    shared = global_batch.GlobalBatch(group.size, group, WEIGHTS, bundle=bundle)
    session = Session(bundle, threads=1, **shared.session_options())
    shared.begin_alike(session, None)
    random = np.random.default_rng(0)
    rows = [random.integers(0, session.vocabulary, (1, length), dtype=np.int32) for _ in range(group.size)]

    def timed(run: object) -> float:
        group.gather([0])
        began = time.perf_counter()
        run()
        return float(group.gather_numbers([time.perf_counter() - began]).max())

    def step() -> None:
        shared.step(session, (rows, rows, None))

    step()
    weights.asked = 0
    session.loss(rows[group.rank], rows[group.rank])
    forward = min(timed(lambda: session.loss(rows[group.rank], rows[group.rank])) for _ in range(3)) / weights.asked
    weights.asked = 0
    step()
    asked = weights.asked
    seconds: dict[str, list[float]] = {str(factor): [] for factor in factors}
    for _ in range(rounds):
        for factor in factors:
            weights.delay = factor * forward
            seconds[str(factor)].append(timed(step))
    weights.delay = 0.0
    if group.is_first:
        print(json.dumps({"forward": forward, "asked": asked, "seconds": seconds}), flush=True)
    shared.leave()


if __name__ == "__main__":
    main()
