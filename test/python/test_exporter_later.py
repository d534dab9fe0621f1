# SPDX-License-Identifier: Apache-2.0
"""What an older torch or transformers lacks: the line that says so names the version that has it."""

import json
from pathlib import Path

import pytest
import torch
import transformers

import mebp
from mebp.exporter import config, experts
from mebp.exporter.graph import trace
from mebp.exporter.later import later_advice
from mebp.exporter.skeleton import build_skeleton
from mebp.exporter.source import resolve
from support import models
from support.versions import pretend

LATER = "mebp trains it with transformers 5.18 (5.8 is installed); update with: pip install 'transformers==5.18.*'"
BOTH = (
    "mebp trains it with torch 2.13 (2.9.1 is installed) and transformers 5.18 (5.8 is installed); update with: pip "
    "install 'torch==2.13.*' 'transformers==5.18.*'"
)


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, torch="2.13.0+cpu")
    assert later_advice("llama", "torch", "transformers") == LATER
    assert later_advice("llama", "torch") is None
    assert later_advice("blt", "transformers") is None  # which mebp refuses
    assert later_advice("of-nobody", "transformers") is None
    pretend(monkeypatch)
    assert later_advice("llama", "torch", "transformers") == BOTH


@pytest.mark.parametrize(
    ("kind", "advice"), [("minicpm3", LATER), ("of-nobody", "update transformers, or export another model")]
)
def test_a_type_that_came_later(kind: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    monkeypatch.setattr(transformers, "__version__", "5.8")
    monkeypatch.setattr(config, "CONFIG_MAPPING", {"llama": None})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(mebp.Error) as caught:
        resolve(tmp_path, tmp_path, shape_only=True)
    assert str(caught.value) == f"{tmp_path / 'config.json'}: transformers 5.8 has no model type '{kind}'; {advice}"


def test_experts_that_were_computed_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    monkeypatch.setattr(experts, "are_replaced", lambda module: False)
    with pytest.raises(mebp.Error) as caught:
        build_skeleton(models.configure("granitemoe"))
    assert str(caught.value) == (
        "GraniteMoeForCausalLM: 'model.layers.0.block_sparse_moe' is a mixture of experts; this transformers "
        f"computes it in a way of its own; {LATER}"
    )


def test_what_an_older_torch_cannot_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such operator")

    model = build_skeleton(models.configure("llama"))
    monkeypatch.setattr(torch.export, "export", fail)
    for found, advice in (("2.9.1", BOTH), ("2.13.0", LATER)):
        pretend(monkeypatch, torch=found)
        with pytest.raises(mebp.Error) as caught:
            trace(model, batch=1, seq_len=4)
        assert str(caught.value) == f"LlamaForCausalLM: torch cannot export it (no such operator); {advice}"
