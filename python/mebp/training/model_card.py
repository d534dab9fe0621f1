# SPDX-License-Identifier: Apache-2.0
"""README.md beside an adapter: what it was trained from, on what, by which command, and how well it came out."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from mebp.compile_options import as_arguments, flag
from mebp.data.sources import Source
from mebp.exporter import hub_files, ollama_store, packaged
from mebp.exporter.naming import HubName, title, without_homes
from mebp.files import replaced_file
from mebp.gguf import GGUF_SUFFIX
from mebp.inspect import describe_trained, inspect, model_title, storage_options
from mebp.outputs import MARK
from mebp.session import Session
from mebp.tasks import CAUSAL, TASKS, Task
from mebp.training.evaluation import perplexity
from mebp.training.markdown import code, table
from mebp.training.options import TrainingOptions
from mebp.training.schedule import CONSTANT
from mebp.training.standing import Standing
from mebp.version import __version__

CARD = "README.md"
_MARK = f"<!-- {MARK} -->"
# What says how a run went on, and not what it computes.
_INCIDENTAL = ("resume", "overwrite", "plan_only", "push_to_hub")


def write_card(folder: Path, text: str) -> None:
    """Writes it for the adapter in `folder`; a README.md of somebody else stays. Raises mebp.Error where it cannot be
    written."""
    if is_own_card(folder / CARD):
        with replaced_file(folder / CARD, "choose another --adapter-out") as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def discard_card(folder: Path) -> None:
    """Removes it; not a README.md of somebody else."""
    if is_own_card(folder / CARD):
        (folder / CARD).unlink(missing_ok=True)


def is_own_card(card: Path) -> bool:
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
    short = model_title(bundle)
    rows = {
        "base model": _base(base, short),
        "adapter": code(describe_trained(bundle)),
        "data": f"{_names(options.data)}, SHA-256 of its tokens and labels: {code(str(description['data']))}",
        "command": code(command),
        "steps": f"{session.steps:,}",
        **_losses(standing, session.steps, has_perplexity),
        "optimizer": f"{session.optimizer}, learning rate {options.lr:g} ({options.schedule or CONSTANT})",
        "base weights while training": f"{code(storage['weights'])}, embedding {code(storage['embedding_weights'])}, "
        f"activations {code(storage['precision'])}",
        "planned peak of memory": f"{session.plan['planned_peak_bytes'] / 1e6:.1f} MB",
        "trained with": f"mebp {__version__}",
    }
    does = TASKS[session.task].pipeline
    public = _public_name(base)
    front = ["---", *([f"base_model: {_scalar(public)}"] if public else []), "library_name: peft",
             f"pipeline_tag: {does}", "tags: [lora, mebp]", "---"]  # fmt: skip
    has_tokens = any("rows_of" in each for each in bundle["trainables"])
    usage = (
        _usage(base, has_tokens)
        if session.task == CAUSAL
        else _usage_of_encoder(base, TASKS[session.task], session.classes)
    )
    return "\n".join([*front, _MARK, f"# An adapter for {code(short)}", "", table(rows), "", usage, ""])


def _public_name(base: str) -> str | None:
    """The hub id by which others find the base model; None where none is known. The name of a folder is none: on the
    hub it may be another model."""
    hub = HubName.of(base)
    return hub.id if hub else packaged.published_name(base) or hub_files.public_name(base)


def _base(name: str, short: str) -> str:
    hub = HubName.of(name)
    if hub and hub.revision:
        return f"{code(hub.id)}, commit {code(hub.revision)}"
    if published := packaged.published_name(name):
        return f"{code(name)}, a copy of {code(published)} in 4 bits"
    if file := hub_files.HubFile.of(name):
        return f"{code(file.id)}, commit {code(str(file.revision))}"
    return code(name if name.startswith((packaged.SCHEME, ollama_store.SCHEME)) else short)


def _scalar(text: str) -> str:
    """As YAML, in quotes and one line."""
    import yaml  # only of who writes a card

    return yaml.safe_dump(text, default_style='"', width=math.inf).strip()


def command_of(options: TrainingOptions, compiling: Mapping[str, object] | None = None) -> str:
    """What trains the same again; `compiling`: the options of mebpc, for a model."""
    words = ["mebp", "train", str(options.bundle)]
    for field in fields(options):
        value = getattr(options, field.name)
        plain = None if field.default is MISSING else field.default
        if field.name in ("objective_options", "optimizer_options"):
            words += [word for name, given in value.items() for word in (flag(name), _written(given))]
            continue
        if isinstance(value, list):
            words += [word for given in value for word in (flag(field.name), str(given))]
            continue
        if field.name == "bundle" or field.name in _INCIDENTAL or value is None or value == plain:
            continue
        if value is False:  # of what is on or off by itself
            words.append(flag(f"no_{field.name}"))
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            words += [flag(field.name), *([] if each is True else [str(each)])]
    return " ".join(map(_quoted, [*words, *as_arguments(compiling or {})]))


def _quoted(word: str) -> str:
    """For a shell and a card: home folders are ~, outside of quotes where that is how a word begins."""
    word = without_homes(word)
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") and word != "~/" else shlex.quote(word)


def _names(sources: Sequence[Source]) -> str:
    return ", ".join(code(str(source.short)) for source in sources)


def _written(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _losses(standing: Standing, steps: int, has_perplexity: bool) -> dict[str, str]:
    """Of the adapter after so many steps; where it was not evaluated, the last evaluation is of another step."""
    found = {}
    if standing.first_loss is not None:
        last = standing.recent_losses[-1] if standing.recent_losses else standing.first_loss
        found["training loss"] = f"{standing.first_loss:.4f} at the first step, {last:.4f} at the last"
    loss = standing.evaluated_loss
    if loss is not None and math.isfinite(loss):
        found["evaluation loss"] = f"{loss:.4f} after step {standing.evaluated}"
        if has_perplexity:
            found["evaluation loss"] += f", perplexity {perplexity(loss):.2f}"
        if standing.evaluated != steps:
            found["evaluation loss"] += f"; not measured after step {steps}"
    return found


def _usage_of_encoder(base: str, task: Task, classes: Sequence[str]) -> str:
    if classes and HubName.of(base):
        kind = task.auto.replace("Auto", "AutoPeft", 1)
        lines, where = [f"from peft import {kind}", "",
                        f'model = {kind}.from_pretrained("ADAPTER", num_labels={len(classes)})'], _ADAPTER  # fmt: skip
    else:  # for fill-mask PEFT has no class
        lines, where = _usage_with_base(base, task.auto, f", num_labels={len(classes)}" if classes else "")
    named = ", ".join(f"{code(name)} ({number})" for number, name in enumerate(classes))
    are = f"The classes are {named}. " if classes else ""
    return "\n".join([f"{are}{where}", "", "```python", *lines, "```"])


_ADAPTER = "ADAPTER is this folder:"


def _usage_with_base(base: str, auto: str, options: str = "") -> tuple[list[str], str]:
    """The code for a base that PEFT does not find by itself, and what its names mean."""
    name = title(base)
    if base.startswith((ollama_store.SCHEME, hub_files.SCHEME)):
        opened = '"BASE", gguf_file="FILE"'
        where = f"FILE is the GGUF file of {code(base.partition('@')[0])}, in the folder BASE. {_ADAPTER}"
    elif public := _public_name(base):
        opened, where = f"{public!r}", _ADAPTER
    elif name.endswith(GGUF_SUFFIX):
        opened, where = f'"BASE", gguf_file={name!r}', f"BASE is the folder that holds {code(name)}. {_ADAPTER}"
    else:
        opened, where = '"BASE"', f"BASE is the folder of the base model, {code(name)}. {_ADAPTER}"
    return [
        "from peft import PeftModel",
        f"from transformers import {auto}",
        "",
        f"base = {auto}.from_pretrained({opened}{options})",
        'model = PeftModel.from_pretrained(base, "ADAPTER")',
    ], where


def _usage(base: str, has_tokens: bool = False) -> str:
    """has_tokens: new ones, for which the base's tables have to have rows."""
    if HubName.of(base):
        lines, where = ["from peft import AutoPeftModelForCausalLM", "",
                        'model = AutoPeftModelForCausalLM.from_pretrained("ADAPTER")'], _ADAPTER  # fmt: skip
    else:
        lines, where = _usage_with_base(base, "AutoModelForCausalLM")
        if has_tokens:
            lines[1] += ", AutoTokenizer"
            lines.insert(-1, 'base.resize_token_embeddings(len(AutoTokenizer.from_pretrained("ADAPTER")))')
    convert = (
        "For MLX-LM: `mebp adapter convert ADAPTER --to mlx -o OUT`; for llama.cpp: "
        "`mebp adapter convert ADAPTER --to gguf -o OUT.gguf --base MODEL`, where MODEL is the base model."
    )
    merge = "For MLX-LM: `mebp merge ADAPTER -o OUT`; for llama.cpp: `mebp merge ADAPTER -o OUT.gguf`."
    return "\n".join(
        [
            where,
            "",
            "```python",
            *lines,
            "```",
            "",
            merge if has_tokens else convert,
        ]
    )
