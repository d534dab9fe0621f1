# SPDX-License-Identifier: Apache-2.0
"""That exports with a trace that was kept are those with a new one, and which differences ask for a new one."""

from pathlib import Path

import pytest
import torch

import mebp
from mebp.exporter import graph, write
from mebp.exporter.encoders import encode_tokens
from mebp.exporter.skeleton import build_skeleton
from support import encoders, models, traces

original = graph.trace


def described(model) -> list[str]:
    return list(traces._description(model))


def test_a_kept_trace_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_folder", lambda: tmp_path / "traces")
    traced = []
    monkeypatch.setattr(traces.graph, "trace", lambda *all_: traced.append(all_) or original(*all_))
    model, bytes_of = models.build("llama", num_hidden_layers=1), {}
    for name, trace in (("new", original), ("kept", traces.kept), ("again", traces.kept)):
        monkeypatch.setattr(write, "trace", trace)
        bytes_of[name] = mebp.export(model, tmp_path / name / "model.onnx", seq_len=6).read_bytes()
    assert len(traced) == 1
    assert bytes_of["new"] == bytes_of["kept"] == bytes_of["again"]


def test_the_same_model_in_another_folder_is_the_same() -> None:
    here, there = models.build("llama").config, models.build("llama").config
    there._name_or_path = "/there"
    assert described(build_skeleton(here)) == described(build_skeleton(there))


@pytest.mark.parametrize(
    "change",
    [{"rms_norm_eps": 1e-3}, {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}, {"hidden_act": "relu"}],
    ids=["setting", "numbers", "activation"],
)
def test_another_config_is_another(change: dict) -> None:
    plain, other = models.build("llama").config, models.build("llama", **change).config
    assert described(build_skeleton(plain)) != described(build_skeleton(other))


def test_whatever_is_done_to_a_model_makes_another_of_it() -> None:
    model = build_skeleton(encoders.build("bert").config, "classify")
    known = [described(model)]

    def first(hidden: torch.Tensor) -> torch.Tensor:
        return hidden[:, :1]

    def scale() -> None:
        next(module for module in model.modules() if hasattr(module, "scaling")).scaling *= 2

    def number() -> None:
        next(model.buffers()).add_(1)

    def tie() -> None:
        query, key = (
            next(module for name, module in model.named_modules() if name.endswith(part)) for part in ("query", "key")
        )
        query.weight = key.weight

    def attention() -> None:
        model.config._attn_implementation = "eager"

    for change in (scale, number, tie, attention, lambda: encode_tokens(model), lambda: encode_tokens(model, first)):
        change()
        assert described(model) not in known
        known.append(described(model))
