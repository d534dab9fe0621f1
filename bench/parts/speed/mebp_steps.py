# SPDX-License-Identifier: Apache-2.0
"""This project's side of bench/speed.py: a process that makes a training step, or a forward, whenever it is told to.

    PYTHONPATH=bench python -m parts.speed.mebp_steps THREADS DEVICE adamw|mezo|forward BUNDLE TOKENS [TRACE]

TRACE is a file for the time of every kernel call; it is whole when the process has ended.
"""

import sys

import numpy as np
from parts.speed.contender import serve

import mebp


def mlx_peak() -> int:
    """Of the library that the session has opened, which MLX's own Python uses, too."""
    import mlx.core

    return mlx.core.get_peak_memory()


def main() -> None:
    threads, device, kind, bundle, tokens, *trace = sys.argv[1:]
    forward_only = kind == "forward"
    session = mebp.Session(
        bundle,
        device=device,
        threads=int(threads),
        optimizer=None if forward_only else kind,
        return_gradients=False,
        forward_only=forward_only,
        profile=trace[0] if trace else None,
    )
    generator = np.random.default_rng(0)

    def step() -> dict:
        ids = generator.integers(0, session.vocabulary, (1, int(tokens)))
        (session.loss if forward_only else session.step)(ids, ids)
        return {"kernels": session.kernels, "device_bytes": 0 if device == "cpu" else mlx_peak()}

    serve(step)


if __name__ == "__main__":
    main()
