# SPDX-License-Identifier: Apache-2.0
"""One model type: a tiny random model of it is exported and compiled, its gradients are compared with float64's, its
greedy text with transformers'."""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import transformers
from parts.models.configuration import list_variants, make_configuration, type_and_task
from parts.models.text import NEW, PROMPT, count_equal_tokens
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

import mebp
from mebp.errors import reason
from mebp.exporter.quiet import quiet
from mebp.models import ModelType
from mebp.tasks import CAUSAL, TASKS

_SEQUENCE, _BATCH = 40, 2
_MOST_PARAMETERS = 20_000_000
_MOST_ROUNDING = 1e-4  # of a gradient in f32, where what it is the sum of cancels


def attempt(model_type: str, variants: bool = False) -> ModelType:
    """What came of it, and of its other configurations; whatever goes wrong is part of that."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        try:
            kind, task = type_and_task(model_type)
            if task != CAUSAL:
                fields = {"num_labels": 3} if TASKS[task].has_classes else {}
                try:
                    model = _build(make_configuration(kind, **fields), getattr(transformers, TASKS[task].auto))
                except Exception as error:
                    return ModelType(model_type, "untried", _line(error, folder))
                return _verify(model_type, model, Path(folder))
            try:
                model = _build(make_configuration(model_type))
            except Exception as error:
                refusal = _refuse_any_size(model_type, Path(folder))
                return refusal or ModelType(model_type, "untried", _line(error, folder))
            found = _verify(model_type, model, Path(folder))
            if found.outcome == "exact":
                found = _with_text(found, model, Path(folder))
            return _with_variants(found, Path(folder)) if variants and found.outcome == "exact" else found
        except mebp.Error as error:
            return ModelType(model_type, "refused", _line(error, folder))
        except Exception as error:
            return ModelType(model_type, "failed", f"{type(error).__name__}: {_line(error, folder)}")


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
        return replace(found, others=f"text: {_line(error, str(folder))}")
    return replace(found, text=count_equal_tokens(model, bundle))


def _with_variants(found: ModelType, folder: Path) -> ModelType:
    """Counts in which other configurations the type is trained exactly, too, and says why it is not in the rest."""
    exact, worst, others = 1, found.worst, [found.others] if found.others else []
    for label, fields in list_variants(found.name).items():
        here = folder / label
        try:
            variant = _verify(found.name, _build(make_configuration(found.name, **fields)), here)
        except mebp.Error as error:
            others.append(f"{label}: {_line(error, str(here))}")
            continue
        except Exception:
            continue  # transformers makes no such model
        if variant.outcome == "exact":
            exact, worst = exact + 1, max(worst, variant.worst)
        else:
            others.append(f"{label}: {variant.outcome}, {variant.reason}")
    return replace(found, worst=worst, configurations=exact, others="; ".join(others))


def _build(config: PreTrainedConfig, kind: type = AutoModelForCausalLM) -> PreTrainedModel:
    """With random parameters all over, norms and biases too, so that none can be mistaken for another."""
    with torch.device("meta"):
        size = kind.from_config(config, trust_remote_code=False).num_parameters()
    if size > _MOST_PARAMETERS:
        raise ValueError(f"the smallest configuration that bench/ makes of it has {size:,} parameters")
    torch.manual_seed(0)
    model = kind.from_config(config, dtype=torch.float32, trust_remote_code=False)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(parameter + 0.2 * noise if parameter.dim() == 1 else 0.08 * noise)
        for name, buffer in model.named_buffers():
            if name.endswith("correction_bias"):  # by which routers choose
                buffer.copy_(0.2 * torch.randn(buffer.shape))
    return model.eval()


def _verify(model_type: str, model: PreTrainedModel, folder: Path) -> ModelType:
    _, task = type_and_task(model_type)
    graph = mebp.export(model, folder / "model" / "model.onnx", seq_len=_SEQUENCE, batch=_BATCH, task=task)
    bundle = folder / "tiny.mebp"
    mebp.compile(graph, bundle, weights="f32", precision="f32", rates="none")
    try:
        found = mebp.verify(bundle)
    except mebp.Error as error:
        return ModelType(model_type, "unverified", _line(error, str(folder)))
    is_exact = found.agrees or (found.bundle.worst < _MOST_ROUNDING and _agrees_with_reference_kernels(bundle))
    outcome, why = ("exact", "") if is_exact else ("wrong", str(found.beyond[0]))
    worst = float(f"{found.bundle.worst:.1e}")
    return ModelType(model_type, outcome, why, len(found.bundle.gradients), worst, configurations=int(is_exact))


def _agrees_with_reference_kernels(bundle: Path) -> bool:
    """Of a gradient whose terms cancel the fast kernels leave rounding that differs from CPU to CPU; a formula that is
    wrong is so with the reference's too, which sum in double."""
    environment = {**os.environ, "MEBP_KERNELS": "reference"}
    command = [sys.executable, "-m", "mebp", "verify", str(bundle)]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def _refuse_any_size(model_type: str, folder: Path) -> ModelType | None:
    """What export says of the type's default configuration, if it refuses that."""
    source = folder / "source"
    try:
        CONFIG_MAPPING[model_type]().save_pretrained(source)
        mebp.export(source, folder / "default" / "model.onnx", seq_len=_SEQUENCE, shape_only=True)
    except mebp.Error as error:
        return ModelType(model_type, "refused", _line(error, str(source)))
    except Exception:
        return None  # transformers' own: what it says of the small configuration is to the point
    return None


def _line(error: Exception, folder: str) -> str:
    """Without the names of folders that are gone by now."""
    text = " ".join(reason(error).split())
    text = text.replace(f"{folder}/model/", "").replace(f"{folder}/", "")
    # Where export saves a model that is in memory.
    return re.sub(r"\.mebp-export-\w+/scratch/\w+(/config\.json)?: ", "", text)
