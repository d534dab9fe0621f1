# SPDX-License-Identifier: Apache-2.0
"""`mebp train` as a call."""

import os
import signal

import numpy as np

from mebp.training.loop import Callback, TrainingRun
from mebp.training.loop import train as train_by_options
from mebp.training.options import TrainingOptions, convert, find_name, option_kinds


def train(
    bundle: str | os.PathLike[str],
    data: str | os.PathLike[str],
    *,
    callback: Callback | None = None,
    progress: bool = True,
    **options: object,
) -> TrainingRun:
    """Trains the bundle's adapter on a file: `mebp train BUNDLE --data DATA`, from Python.

    data: plain text, or JSON lines with "text", with "prompt" and "completion", or with "messages".
    callback: called after each step with its record: step (from 1), loss (nats per token, before the update),
        grad_norm, lr, tokens (labels that counted), seconds, peak_bytes. The run ends where it returns True.
    progress: False shows nothing.
    options: those of the command line, with _ for -, and its defaults: steps or epochs, lr, seed, optimizer,
        weight_decay, clip, accumulate, schedule, warmup, eval, eval_every, patience, adapter, adapter_out, keep, state,
        save_every, resume, overwrite, log, plot, spill, profile, threads, device.

    Returns the records, the evaluations, and the session as the run left it. Ctrl-C is seen when the step has ended:
    state and adapter are saved where they were asked for, then KeyboardInterrupt is raised; SIGTERM and SIGHUP take
    their course likewise. (They are the main thread's to see: in another one, return True from the callback.)

    Raises mebp.Error for an invalid option, data that cannot be read, and where a step fails, as when the
    loss is not finite; what was trained until then is saved likewise, as it is before what the callback raises.
    """
    run = train_by_options(_options({"bundle": bundle, "data": data, **options}), callback, progress)
    if run.signal == signal.SIGINT:
        raise KeyboardInterrupt(f"stopped after step {run.session.steps}")
    if run.signal is not None:
        signal.raise_signal(run.signal)
    return run


def _options(given: dict[str, object]) -> TrainingOptions:
    kinds = option_kinds()
    named = {find_name(name, kinds): value for name, value in given.items() if value is not None}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in named.items()}
    return TrainingOptions(**{name: convert(name, value, kinds[name]) for name, value in plain.items()})
