# SPDX-License-Identifier: Apache-2.0
"""What `mebp merge` says of a merged model that is compiled again."""

import json
from pathlib import Path

import pytest

import mebp
from mebp.cli import main
from mebp.merging.served import opened
from mebp.recompiling import Recompiled, recompile
from support.textmodel import make_text_bundle


@pytest.fixture(scope="module")
def trained(bundle, tmp_path_factory) -> tuple[Path, Path]:
    """An adapter that has learned a text, and the text."""
    folder = tmp_path_factory.mktemp("trained")
    data = folder / "data.txt"
    data.write_text("Half an hour before sunset, the lamp is lit.\n" * 8)
    mebp.train(bundle, data, steps=40, lr=1e-2, adapter_out=folder / "adapter", progress=False)
    return folder / "adapter", data


_STAGES = (
    "measuring the loss without the adapter and with it",
    "exporting what was merged",
    *(f"{what} it with {storage} weights" for storage in ("int4", "int8", "bf16", "f32")
      for what in ("compiling", "measuring")),
)  # fmt: skip


def loss_of(bundle: Path, data: Path, *options: object, capsys) -> float:
    assert main(["eval", str(bundle), "--data", str(data), "--json", *map(str, options)]) == 0
    return json.loads(capsys.readouterr().out)["loss"]


def test_losses_are_those_of_who_compiles_again(bundle, trained, tmp_path, capsys):
    adapter, data = trained
    merged = tmp_path / "merged"
    arguments = ["merge", bundle, "--adapter", adapter, "-o", merged, "--data", data]
    assert main([*map(str, arguments)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line in _STAGES] == list(_STAGES)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["merged"]
    with opened(bundle, adapter, data) as served:
        found = recompile(served, merged)
    assert list(found.merged) == ["int4", "int8", "bf16"]
    assert found.base == loss_of(bundle, data, capsys=capsys)
    assert found.trained == loss_of(bundle, data, "--adapter", adapter, capsys=capsys)
    mebp.export(str(merged), tmp_path / "again" / "model.onnx", seq_len=32, batch=2)
    mebp.compile(tmp_path / "again" / "model.onnx", tmp_path / "int4.mebp", weights="int4", precision="f32")
    assert found.merged["int4"] == loss_of(tmp_path / "int4.mebp", data, capsys=capsys)
    # What is rounded more finely is nearer to what was trained.
    assert abs(found.merged["bf16"] - found.trained) < abs(found.merged["int4"] - found.trained)
    assert found.written == pytest.approx(found.trained, abs=1e-4)
    compiled = ", ".join(f"{loss:.4f} as {storage}" for storage, loss in found.merged.items())
    assert f"as the bundle computes: {found.base:.4f} without the adapter, {found.trained:.4f} with it; " in " ".join(
        said
    )
    assert f"merged and compiled again: {compiled}" in " ".join(said)
    assert any(line.startswith("compiled again with --weights int4, it keeps ") for line in said)


def test_without_data_the_trained_model_writes_some(bundle, trained, tmp_path, capsys):
    merged = tmp_path / "merged"
    assert main(["merge", str(bundle), "--adapter", str(trained[0]), "-o", str(merged)]) == 0
    assert "\nloss on samples that the trained model writes, f32 " in capsys.readouterr().out


def test_f32_is_compiled_to_nothing_else(trained, tmp_path):
    bundle = make_text_bundle(tmp_path, weights="f32")
    mebp.merge(bundle, trained[0], tmp_path / "merged")
    with opened(bundle, *trained) as served:
        found = recompile(served, tmp_path / "merged")
    assert found.merged == {} and found.written == pytest.approx(found.trained, abs=1e-4)


def test_what_cannot_be_measured_is_merged_all_the_same(bundle, trained, tmp_path, monkeypatch, capsys):
    def fail(command: list[str]) -> str:
        raise mebp.Error("mebp: transformers is not installed; pip install mebp[export]")

    monkeypatch.setattr("mebp.merging.compiling.run_tool", fail)
    merged = tmp_path / "merged"
    assert main(["merge", str(bundle), "--adapter", str(trained[0]), "-o", str(merged)]) == 0
    assert (merged / "model.safetensors").exists()
    assert capsys.readouterr().out.endswith(
        "what compiling it again loses was not measured: transformers is not installed; pip install mebp[export]\n"
    )


@pytest.mark.parametrize(
    ("losses", "advised"),
    [
        ({"int4": 0.0, "int8": 0.0}, "int4"),
        ({"int4": 2.0, "int8": 0.1, "bf16": 0.0}, "int8"),
        ({"int4": 2.0, "int8": 1.0, "bf16": 0.5}, None),
    ],
)
def test_the_smallest_that_keeps_the_training_is_advised(losses, advised):
    assert Recompiled("data", base=3.0, trained=0.0, merged=losses).advised == advised
    assert Recompiled("data", base=3.0, trained=3.0, merged=losses).advised is None


def test_refusals(bundle, trained, tmp_path, capsys):
    common = ["merge", str(bundle), "--adapter", str(trained[0]), "-o", str(tmp_path / "merged"), "--data"]
    assert main([*common, str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"mebp: --data {tmp_path / 'none'}: no such file; check the path\n"
    assert main([*common, str(trained[1]), "--no-measure"]) == 2
    assert capsys.readouterr().err == "mebp: --data is for what --no-measure leaves out; give one of them\n"
    assert not list(tmp_path.iterdir())
