# SPDX-License-Identifier: Apache-2.0
"""One tiny random model: it is exported and compiled, its gradients are compared with float64's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch
from parts.models.configuration import type_and_task
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

import mebp
from mebp.errors import reason
from mebp.models import ModelType

_SEQUENCE, _BATCH = 40, 2
_MOST_PARAMETERS = 20_000_000
_MOST_ROUNDING = 1e-4  # of a gradient in f32, where what it is the sum of cancels


def build(config: PreTrainedConfig, kind: type = AutoModelForCausalLM) -> PreTrainedModel:
    """With random parameters all over, norms and biases too, so that none can be mistaken for another."""
    make = kind.from_config if hasattr(kind, "from_config") else kind._from_config
    known = {"trust_remote_code": False} if hasattr(kind, "from_config") else {}
    with torch.device("meta"):
        size = make(config, **known).num_parameters()
    if size > _MOST_PARAMETERS:
        raise ValueError(f"the smallest configuration that bench/ makes of it has {size:,} parameters")
    torch.manual_seed(0)
    model = make(config, dtype=torch.float32, **known)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(parameter + 0.2 * noise if parameter.dim() == 1 else 0.08 * noise)
        for name, buffer in model.named_buffers():
            if name.endswith("correction_bias"):  # by which routers choose
                buffer.copy_(0.2 * torch.randn(buffer.shape))
    return model.eval()


def verify(name: str, model: PreTrainedModel, folder: Path) -> ModelType:
    """What came of it; whatever goes wrong is part of that."""
    try:
        return _verify(name, model, folder)
    except mebp.Error as error:
        return ModelType(name, "refused", line(error, str(folder)))
    except Exception as error:
        return ModelType(name, "failed", f"{type(error).__name__}: {line(error, str(folder))}")


def _verify(name: str, model: PreTrainedModel, folder: Path) -> ModelType:
    _, task = type_and_task(name)
    graph = mebp.export(model, folder / "model" / "model.onnx", seq_len=_SEQUENCE, batch=_BATCH, task=task)
    bundle = folder / "tiny.mebp"
    mebp.compile(graph, bundle, weights="f32", precision="f32", rates="none")
    try:
        found = mebp.verify(bundle)
    except mebp.Error as error:
        return ModelType(name, "unverified", line(error, str(folder)))
    is_exact = found.agrees or (found.bundle.worst < _MOST_ROUNDING and _agrees_with_reference_kernels(bundle))
    outcome, why = ("exact", "") if is_exact else ("wrong", str(found.beyond[0]))
    worst = float(f"{found.bundle.worst:.1e}")
    return ModelType(name, outcome, why, len(found.bundle.gradients), worst, configurations=int(is_exact))


def _agrees_with_reference_kernels(bundle: Path) -> bool:
    """Of a gradient whose terms cancel the fast kernels leave rounding that differs from CPU to CPU; a formula that is
    wrong is so with the reference's too, which sum in double."""
    environment = {**os.environ, "MEBP_KERNELS": "reference"}
    command = [sys.executable, "-m", "mebp", "verify", str(bundle)]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def refuse_any_size(model_type: str, folder: Path) -> ModelType | None:
    """What export says of the type's default configuration, if it refuses that."""
    source = folder / "source"
    try:
        CONFIG_MAPPING[model_type]().save_pretrained(source)
        mebp.export(source, folder / "default" / "model.onnx", seq_len=_SEQUENCE, shape_only=True)
    except mebp.Error as error:
        return ModelType(model_type, "refused", line(error, str(source)))
    except Exception:
        return None  # transformers' own: what it says of the small configuration is to the point
    return None


def line(error: Exception, folder: str) -> str:
    """Without the names of folders that are gone by now."""
    text = " ".join(reason(error).split())
    text = text.replace(f"{folder}/model/", "").replace(f"{folder}/", "")
    # Where export saves a model that is in memory.
    return re.sub(r"\.mebp-export-\w+/scratch/\w+(/[\w.-]+)?: ", "", text)
