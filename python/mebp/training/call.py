# SPDX-License-Identifier: Apache-2.0
"""`mebp train` as a call."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mebp.numbers import checked
from mebp.training.interrupts import answer
from mebp.training.lists import lists_as_files
from mebp.training.loop import Callback, TrainingRun
from mebp.training.options import convert, find_name
from mebp.training.request import Request, request_kinds

if TYPE_CHECKING:  # at a call, lists.py says what is wrong, with the sample
    Path = str | os.PathLike[str]
    Sample = str | Mapping[str, object]
    Data = Path | Sequence[Path | Sample | Sequence[Sample]]


@checked
def train(
    bundle: str | os.PathLike[str],
    data: "Data",
    *,
    callback: Callback | None = None,
    progress: bool = True,
    **options: object,
) -> TrainingRun:
    """Trains a bundle's adapter on data: `mebp train BUNDLE --data DATA`, from Python.

    bundle: or a model, which is exported and compiled first: a Hugging Face folder, a GGUF file, a hub id,
        "OWNER/NAME@REVISION", "hub:OWNER/NAME:Q4_K_M", "ollama:NAME" or "packaged:smollm2".
    data: a file of plain text, or JSON lines with "text", with "prompt" and "completion", or with "messages"; of a
        classifier, "text" and "label", or "tokens" and "labels"; or a folder with train.jsonl, and valid.jsonl and
        test.jsonl for eval and test; or a list of these, each with its share of an epoch where one is given, as in
        "b.jsonl:0.2". Or the samples themselves, in a list: a dict for each, with what a line of JSON would have, or a
        text for each. eval, test, rollouts and ask take such a list, too.
    callback: called after each step with its record: step (from 1), loss (nats per token, before the update),
        grad_norm, lr, tokens (labels that counted), seconds, peak_bytes. The run ends where it returns True.
    progress: False shows nothing.
    options: those of the command line, with _ for -, and its defaults: task, steps or epochs, lr, seed, optimizer,
        weight_decay, clip, clip_recompute, accumulate, global_batch, shard, reduce, interface, packing, schedule,
        warmup, warmup_ratio, eval, val_split, eval_every, ask, test, judge, patience, adapter, adapter_out,
        push_to_hub, model_out, keep, state, save_every, pause_on, resume, overwrite, log, plot, report_to, spill_dir,
        plan_only (which returns a session only of a bundle), profile, threads, device, columns; what counts of
        conversations, by loss_on, turn_weights and empty_thoughts (docs/what-counts.md); new tokens, by train_tokens
        and embedding_lr (docs/training.md); of masked text mask_probability; of a device's half of a split model
        connect, cert, key, ca, plain_text, retry_for and in_flight; and what an optimizer has of its own, as
        mebp.Session lists its optimizer_options.
        objective ("sft", "dpo", "grpo", "ppo" or "orpo"), reference, reward, reward_timeout, rollouts, and what else an
        objective has, its objective_options, by TRL's names (docs/preferences.md, docs/rewards.md). Of a model, also
        those of mebpc that CompileOptions lists: seq_len, batch, weights, lora_rank, adapter_kind, memory_budget and
        others.

    Returns the records, the evaluations, and the session as the run left it. Ctrl-C is seen when the step has ended:
    state and adapter are saved where they were asked for, then KeyboardInterrupt is raised; SIGTERM and SIGHUP take
    their course likewise. (They are the main thread's to see: in another one, return True from the callback.)

    Raises mebp.Error for an invalid option, data that cannot be read, and where a step fails, as when the
    loss is not finite; what was trained until then is saved likewise, as it is before what the callback raises. Also
    where push_to_hub fails, when all else is done.
    """
    with lists_as_files({"bundle": bundle, "data": data, **options}) as given:
        run = Request.of(converted(given)).run(callback, progress)
    told = f"stopped after step {run.session.steps}" if run.session else "a restart of what a signal has stopped"
    answer(run.signal, told)
    return run


def converted(given: dict[str, object]) -> dict[str, object]:
    """The options that are given, by their names here. Raises mebp.Error for one that is not there or is invalid."""
    kinds = request_kinds()
    named = {find_name(name, kinds): value for name, value in given.items() if value is not None}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in named.items()}
    return {name: convert(name, value, kinds[name]) for name, value in plain.items()}
