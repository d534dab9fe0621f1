# SPDX-License-Identifier: Apache-2.0
"""One model type: tiny random models of it are exported and compiled, their gradients are compared with float64's, the
greedy text of the first with transformers'."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import transformers
from parts.models.configuration import defaults, list_variants, make_configuration, type_and_task
from parts.models.layers import distinct, known_layers, layer_kinds, layers_field, mixers
from parts.models.text import NEW, PROMPT, count_equal_tokens
from parts.models.trial import build, line, refuse_any_size, verify
from parts.public_shapes import PublicShape, configuration, published
from parts.reduced_shapes import reduced
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

import mebp
from mebp.exporter.quiet import quiet
from mebp.exporter.text_parts import TEXT_PARTS
from mebp.models import ModelType, PublishedModel
from mebp.tasks import CAUSAL, TASKS


@dataclass(frozen=True)
class Trial:
    """What came of one configuration; `label` says which, after "trained exactly"."""

    label: str
    found: ModelType
    layers: Sequence[str] = ()

    @property
    def is_exact(self) -> bool:
        return self.found.outcome == "exact"


def attempt(model_type: str, variants: bool = False) -> ModelType:
    """What came of it, with each kind of its layers, each published configuration, and other configurations; whatever
    goes wrong is part of that."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        try:
            return _attempt(model_type, Path(folder), variants)
        except mebp.Error as error:
            return ModelType(model_type, "refused", line(error, folder))
        except Exception as error:
            return ModelType(model_type, "failed", f"{type(error).__name__}: {line(error, folder)}")


def _attempt(model_type: str, folder: Path, variants: bool) -> ModelType:
    kind, task = type_and_task(model_type)
    if task != CAUSAL:
        fields = {"num_labels": 3} if TASKS[task].has_classes else {}
        return _first(model_type, lambda: make_configuration(kind, **fields), folder, TASKS[task].auto).found
    shapes = published(kind)
    tried = []
    if not (kind in TEXT_PARTS and shapes):  # of these, bench/ makes no small configuration
        tried = [_first(kind, lambda: make_configuration(kind), folder)]
        tried += _with_layers(kind, tried[0], folder)
    as_published = [_published(shape, folder, with_text=not tried and shape is shapes[0]) for shape in shapes]
    tried = [each for each in [*tried, *as_published] if each.found.outcome != "untried"] or tried
    found = replace(judged(tried), published=tuple(map(_entry, shapes, as_published)))
    return _with_variants(found, folder) if variants and found.outcome == "exact" and kind not in TEXT_PARTS else found


def _entry(shape: PublicShape, trial: Trial) -> PublishedModel:
    found = trial.found
    return PublishedModel(shape.name, shape.source, found.outcome, found.reason, ", ".join(trial.layers))


def judged(trials: Sequence[Trial]) -> ModelType:
    """One entry of all: exact where each is, else what the first is that is not, and which are nevertheless."""
    first, layers = trials[0].found, ", ".join(distinct(name for each in trials for name in each.layers))
    failed = next((each for each in trials if not each.is_exact), None)
    exact = [each for each in trials if each.is_exact]
    if failed is None:
        worst = max(each.found.worst for each in exact)
        return replace(first, worst=worst, configurations=len(exact), layers=layers)
    label = f"{failed.label}: " if failed.label else ""
    labels = [each.label for each in exact if each.label] or [_plainly(each) for each in exact[:1]]
    rest = f"; trained exactly {', '.join(labels)}" if labels else ""
    return ModelType(first.name, failed.found.outcome, f"{label}{failed.found.reason}{rest}", layers=layers)


def _plainly(trial: Trial) -> str:
    """Of the first configuration, which needs no label where it is alone."""
    return f"with layers of {' and '.join(trial.layers)} alone" if trial.layers else "otherwise"


def _first(
    model_type: str, make: Callable[[], PreTrainedConfig], folder: Path, auto: str = "AutoModelForCausalLM"
) -> Trial:
    """The tiny configuration of a type; with its text, where it is causal."""
    try:
        config = make()
        model = build(config, getattr(transformers, auto))
    except Exception as error:
        why = ModelType(model_type, "untried", line(error, str(folder)))
        is_causal = type_and_task(model_type)[1] == CAUSAL
        return Trial("", (refuse_any_size(model_type, folder) if is_causal else None) or why)
    return _tried("", model_type, model, folder / "first", distinct(layer_kinds(config)), with_text=True)


def _tried(
    label: str, name: str, model: PreTrainedModel, folder: Path, layers: Sequence[str], with_text: bool = False
) -> Trial:
    found = verify(name, model, folder)
    is_text = with_text and found.outcome == "exact" and type_and_task(name)[1] == CAUSAL
    return Trial(label, _with_text(found, model, folder) if is_text else found, layers)


def _with_layers(model_type: str, first: Trial, folder: Path) -> list[Trial]:
    """The type with all mixers that its layers can have, where the first has not; and, where not all can be trained,
    with each alone."""
    known = known_layers(model_type)
    if first.found.outcome == "untried" or not known:
        return []
    found = []
    if {each.split(" + ")[0] for each in first.layers} != set(known):
        mixed = _mixed(model_type, known, f"with layers of {' and '.join(known)}", folder)
        found = [] if mixed is None else [mixed]
    if first.is_exact and all(each.is_exact for each in found):
        return found
    if len(distinct(each.split(" + ")[0] for each in first.layers)) > 1 or not first.is_exact:
        alone = [_mixed(model_type, [each] * 2, f"with layers of {each} alone", folder) for each in known]
        found += [each for each in alone if each is not None and each.is_exact]
    return found


def _mixed(model_type: str, wanted: Sequence[str], label: str, folder: Path) -> Trial | None:
    """With these layers; None where transformers makes no such model."""
    fields: dict[str, object] = {str(layers_field(model_type)): list(wanted), "num_hidden_layers": len(wanted)}
    slides = "sliding_attention" in wanted
    fields |= {"use_sliding_window": slides, "sliding_window": 16} if slides else {"use_sliding_window": False}
    known = defaults(CONFIG_MAPPING[model_type])
    fields = {name: value for name, value in fields.items() if name in known}
    try:
        config = make_configuration(model_type, **fields)
        model = build(config)
    except Exception:
        return None
    if mixers(config) != list(wanted):
        return None
    return _tried(label, model_type, model, folder / label.replace(" ", "-"), distinct(layer_kinds(config)))


def _published(shape: PublicShape, folder: Path, with_text: bool) -> Trial:
    """Of the class that takes everything, where a configuration has more than text."""
    label, here = f"as {shape.name}", folder / shape.name
    try:
        config = configuration(reduced(shape.fields))
        named = shape.fields["architectures"][0] if "text_config" in shape.fields else "AutoModelForCausalLM"
        model = build(config, getattr(transformers, named))
    except Exception as error:
        return Trial(label, ModelType(shape.model_type, "untried", line(error, str(folder))))
    return _tried(label, shape.model_type, model, here, distinct(layer_kinds(config)), with_text)


def _with_text(found: ModelType, model: PreTrainedModel, folder: Path) -> ModelType:
    """Counts the tokens of its text that are transformers', or says why there is none."""
    bundle = folder / "text.mebp"
    try:
        mebp.compile(
            folder / "model" / "model.onnx",
            bundle,
            weights="f32",
            precision="f32",
            rates="none",
            generate_len=PROMPT + NEW,
        )
    except mebp.Error as error:
        return replace(found, others=f"text: {line(error, str(folder))}")
    return replace(found, text=count_equal_tokens(model, bundle))


def _with_variants(found: ModelType, folder: Path) -> ModelType:
    """Counts in which other configurations the type is trained exactly, too, and says why it is not in the rest."""
    exact, worst, others = found.configurations, found.worst, [found.others] if found.others else []
    for label, fields in list_variants(found.name).items():
        here = folder / label
        try:
            model = build(make_configuration(found.name, **fields))
        except Exception:
            continue  # transformers makes no such model
        variant = verify(found.name, model, here)
        if variant.outcome == "exact":
            exact, worst = exact + 1, max(worst, variant.worst)
        else:
            kind = "" if variant.outcome == "refused" else f"{variant.outcome}, "
            others.append(f"{label}: {kind}{variant.reason}")
    return replace(found, worst=worst, configurations=exact, others="; ".join(others))
