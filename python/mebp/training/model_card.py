# SPDX-License-Identifier: Apache-2.0
"""README.md beside an adapter: what it was trained from, on what, by which command, and how well it came out."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path

from mebp.compile_options import as_arguments, flag
from mebp.data.sources import Source
from mebp.files import replaced_file
from mebp.gguf import GGUF_SUFFIX
from mebp.inspect import describe_trained, inspect, model_title, storage_options
from mebp.outputs import MARK
from mebp.session import Session
from mebp.tasks import CAUSAL, TASKS, Task
from mebp.training.evaluation import perplexity
from mebp.training.options import TrainingOptions
from mebp.training.standing import Standing
from mebp.version import __version__

CARD = "README.md"
_MARK = f"<!-- {MARK} -->"
# What says how a run went on, and not what it computes.
_INCIDENTAL = ("resume", "overwrite")


def write_card(folder: Path, text: str) -> None:
    """Writes it for the adapter in `folder`; a README.md of somebody else stays. Raises mebp.Error where it cannot be
    written."""
    if _is_ours(folder / CARD):
        with replaced_file(folder / CARD, "choose another --adapter-out") as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def discard_card(folder: Path) -> None:
    """Removes it; not a README.md of somebody else."""
    if _is_ours(folder / CARD):
        (folder / CARD).unlink(missing_ok=True)


def _is_ours(card: Path) -> bool:
    """Whether it may be replaced, too where there is none."""
    return not card.exists() or (card.is_file() and _MARK in card.read_text(encoding="utf-8", errors="replace"))


def make_card(
    options: TrainingOptions,
    session: Session,
    description: dict,
    standing: Standing,
    command: str,
    has_perplexity: bool,
) -> str:
    """Of the adapter as the session has it now.

    description: what the run's state says of its data and options. command: what trains the same again.
    has_perplexity: whether exp(loss) says anything.
    """
    bundle = inspect(options.bundle)
    base, storage = bundle["model"]["name"], storage_options(bundle)
    rows = {
        "base model": f"`{base}`",
        "adapter": describe_trained(bundle),
        "data": f"{_names(options.data)}, SHA-256 of its tokens and labels: `{description['data']}`",
        "command": f"`{command}`",
        "steps": f"{session.steps:,}",
        **_losses(standing, has_perplexity),
        "optimizer": f"{session.optimizer}, learning rate {options.lr:g} ({options.schedule})",
        "base weights while training": f"{storage['weights']}, embedding {storage['embedding_weights']}, activations "
        f"{storage['precision']}",
        "planned peak of memory": f"{session.plan['planned_peak_bytes'] / 1e6:.1f} MB",
        "trained with": f"mebp {__version__}",
    }
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {_cell(value)} |" for name, value in rows.items())])
    does = TASKS[session.task].pipeline
    front = ["---", f"base_model: {json.dumps(base)}", "library_name: peft", f"pipeline_tag: {does}",
             "tags: [lora, mebp]", "---"]  # fmt: skip
    usage = _usage(base) if session.task == CAUSAL else _usage_of_encoder(base, TASKS[session.task], session.classes)
    return "\n".join([*front, _MARK, f"# An adapter for {model_title(bundle)}", "", table, "", usage, ""])


def command_of(options: TrainingOptions, compiling: Mapping[str, object] | None = None) -> str:
    """What trains the same again; `compiling`: the options of mebpc, for a model."""
    words = ["mebp", "train", str(options.bundle)]
    for field in fields(options):
        value = getattr(options, field.name)
        plain = None if field.default is MISSING else field.default
        if field.name in ("objective_options", "optimizer_options"):
            words += [word for name, given in value.items() for word in (flag(name), _written(given))]
            continue
        if field.name == "bundle" or field.name in _INCIDENTAL or value is None or value == plain:
            continue
        if value is False:  # of what is on or off by itself
            words.append(flag(f"no_{field.name}"))
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            words += [flag(field.name), *([] if each is True else [str(each)])]
    return shlex.join([*words, *as_arguments(compiling or {})])


def _names(sources: Sequence[Source]) -> str:
    return ", ".join(f"`{replace(source, path=Path(source.path.name))}`" for source in sources)


def _written(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _losses(standing: Standing, has_perplexity: bool) -> dict[str, str]:
    found = {}
    if standing.first_loss is not None:
        last = standing.recent_losses[-1] if standing.recent_losses else standing.first_loss
        found["training loss"] = f"{standing.first_loss:.4f} at the first step, {last:.4f} at the last"
    if standing.best_loss is not None and math.isfinite(standing.best_loss):
        found["evaluation loss"] = f"{standing.best_loss:.4f} after step {standing.best_step}"
        if has_perplexity:
            found["evaluation loss"] += f", perplexity {perplexity(standing.best_loss):.2f}"
    return found


def _usage_of_encoder(base: str, task: Task, classes: Sequence[str]) -> str:
    if classes:
        kind = task.auto.replace("Auto", "AutoPeft", 1)
        code = [f"from peft import {kind}", "",
                f'model = {kind}.from_pretrained("ADAPTER", num_labels={len(classes)})']  # fmt: skip
    else:  # for which PEFT has no class
        code = ["from peft import PeftModel", f"from transformers import {task.auto}", "",
                f"base = {task.auto}.from_pretrained({base!r})",
                'model = PeftModel.from_pretrained(base, "ADAPTER")']  # fmt: skip
    named = ", ".join(f"{name} ({number})" for number, name in enumerate(classes))
    are = f"The classes are {named}. " if classes else ""
    return "\n".join([f"{are}ADAPTER is this folder:", "", "```python", *code, "```"])


def _usage(base: str) -> str:
    if base.endswith(GGUF_SUFFIX):
        code = ["from peft import PeftModel", "from transformers import AutoModelForCausalLM", "",
                f"base = AutoModelForCausalLM.from_pretrained({str(Path(base).parent)!r}, "
                f"gguf_file={Path(base).name!r})",
                'model = PeftModel.from_pretrained(base, "ADAPTER")']  # fmt: skip
    else:
        code = ["from peft import AutoPeftModelForCausalLM", "",
                'model = AutoPeftModelForCausalLM.from_pretrained("ADAPTER")']  # fmt: skip
    return "\n".join(
        [
            "ADAPTER is this folder:",
            "",
            "```python",
            *code,
            "```",
            "",
            "For MLX-LM: `mebp adapter convert ADAPTER --to mlx -o OUT`; for llama.cpp: "
            "`mebp adapter convert ADAPTER --to gguf -o OUT.gguf`.",
        ]
    )


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
