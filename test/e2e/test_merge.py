# SPDX-License-Identifier: Apache-2.0
"""`mebp merge`: transformers computes with the merged folder what the session computes."""

import os
import shutil
import subprocess
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

import mebp
from mebp import merging
from mebp.cli import main
from mebp.extension import load_runtime
from mebp.tensor_file import write_tensors
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import refusal_in_process
from support.pipeline import make_bundle

TOLERANCE = 1e-4


def session_with_adapter(bundle: Path, adapter: Path) -> mebp.Session:
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(adapter)
    return session


def logits_of(folder: Path, ids: np.ndarray) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(folder).float().eval()
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids)).logits.numpy()


def refusal(capsys, *arguments: object) -> str:
    return refusal_in_process(capsys, "merge", *arguments, "--no-measure")


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "phi3"])
def test_transformers_computes_the_same(tmp_path, family, capsys):
    model = models.build(family)
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32, batch=2)
    session = session_with_adapter(bundle, tmp_path / "adapter")
    merged = tmp_path / "new" / "merged"
    assert main(["merge", "--no-measure", str(bundle), "--adapter", str(tmp_path / "adapter"), "-o", str(merged)]) == 0
    names = {name: values.shape for name, values in load_file(tmp_path / "source" / "model.safetensors").items()}
    assert {name: values.shape for name, values in load_file(merged / "model.safetensors").items()} == names
    ids = models.token_ids(model, 2, 27).numpy()
    assert relative_error(session.logits(ids), logits_of(merged, ids)) < TOLERANCE
    assert relative_error(mebp.Session(bundle).logits(ids), logits_of(merged, ids)) > 100 * TOLERANCE
    adapted = len(session.trainables()) // 2
    assert f"changes {adapted} of {len(names)} tensors of the bundle's dequantised" in capsys.readouterr().out
    assert oct(merged.stat().st_mode) == oct((tmp_path / "source").stat().st_mode)


def test_smollm2(smollm2, tmp_path, show):
    session = session_with_adapter(smollm2.bundle, tmp_path / "adapter")
    mebp.merge(smollm2.bundle, tmp_path / "adapter", tmp_path / "merged")
    ids = np.array([smollm2.tokenizer.encode("The keeper of the lighthouse wrote in his log that the")])
    error = relative_error(session.logits(ids), logits_of(tmp_path / "merged", ids))
    show(f"SmolLM2-135M merged in f32: logits of transformers within {error:.1e} of the session's")
    assert error < TOLERANCE
    files = {entry.name for entry in (smollm2.bundle / "tokenizer").iterdir()}
    assert {entry.name for entry in (tmp_path / "merged").iterdir()} == {*files, "model.safetensors"}


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    bundle = make_bundle(models.build("llama"), folder, seq_len=32)
    session_with_adapter(bundle, folder / "adapter")
    return folder


@pytest.mark.parametrize(("dtype", "bits"), [("bf16", 8), ("f16", 11)])
def test_rounding(llama, tmp_path, dtype, bits, capsys):
    arguments = [str(llama / "model.mebp"), "--adapter", str(llama / "adapter"), "--dtype", dtype]
    exact = mebp.merge(llama / "model.mebp", llama / "adapter", tmp_path / "f32")
    assert main(["merge", "--no-measure", *arguments, "-o", str(tmp_path / dtype)]) == 0
    out = capsys.readouterr().out
    assert not any(exact.roundings.values()) and f"rounding to {dtype} changes a tensor by up to" in out
    torch_type = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    with safe_open(tmp_path / dtype / "model.safetensors", "pt") as ours:
        for name, values in load_file(tmp_path / "f32" / "model.safetensors").items():
            assert torch.equal(ours.get_tensor(name), torch.from_numpy(values).to(torch_type)), name
    assert AutoModelForCausalLM.from_pretrained(tmp_path / dtype).dtype == torch_type
    most = max(mebp.merge(llama / "model.mebp", llama / "adapter", tmp_path / "again", dtype).roundings.values())
    assert 2.0 ** -(bits + 2) < most < 2.0**-bits


def test_ties_round_to_even_as_in_torch(tmp_path):
    bits = np.array([0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF808000, 0x00000001, 0], np.uint32)
    values = bits.view(np.float32)
    write_tensors(tmp_path / "file.safetensors", {"x": (7,), "empty": (0, 3)}, [values, np.zeros((0, 3))], "bf16")
    with safe_open(tmp_path / "file.safetensors", "pt") as file:
        assert torch.equal(file.get_tensor("x"), torch.from_numpy(values).bfloat16())
        assert file.get_tensor("empty").shape == (0, 3)


def test_refusals(llama, tmp_path, capsys):
    bundle, adapter, out = llama / "model.mebp", llama / "adapter", tmp_path / "out"
    common = ["--adapter", adapter, "-o", out]
    assert "no-bundle" in refusal(capsys, tmp_path / "no-bundle.mebp", *common)
    assert "no-adapter" in refusal(capsys, bundle, "--adapter", tmp_path / "no-adapter", "-o", out)
    assert "--dtype" in refusal(capsys, bundle, *common, "--dtype", "f8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "model.safetensors").write_text("precious")
    assert "exists already; give a new or an empty folder" in refusal(
        capsys, bundle, "--adapter", adapter, "-o", tmp_path / "full"
    )
    assert (tmp_path / "full" / "model.safetensors").read_text() == "precious"
    assert "cannot be written" in refusal(capsys, bundle, "--adapter", adapter, "-o", "/proc/merged")
    shutil.copytree(bundle, tmp_path / "bare.mebp")
    (tmp_path / "bare.mebp" / "tokenizer" / "config.json").write_text("{")
    assert "config.json: is not JSON" in refusal(capsys, tmp_path / "bare.mebp", *common)
    (tmp_path / "bare.mebp" / "tokenizer" / "config.json").unlink()
    assert "config.json: cannot be read" in refusal(capsys, tmp_path / "bare.mebp", *common)
    with pytest.raises(mebp.Error, match="dtype 'f8' is not one of f32, bf16, f16"):
        mebp.merge(bundle, adapter, out, "f8")
    assert {entry.name for entry in tmp_path.iterdir()} == {"full", "bare.mebp"}


@pytest.mark.filterwarnings("error")
def test_numbers_that_cannot_be_held_leave_nothing(llama, tmp_path, capsys):
    for number, dtype, words in [(1e3, "f16", "which f16 cannot hold"), (1e20, "f32", "is not finite")]:
        adapter = tmp_path / "adapter"
        shutil.copytree(llama / "adapter", adapter, dirs_exist_ok=True)
        tensors = load_file(adapter / "adapter_model.safetensors")
        for name in tensors:
            if ".2.mlp.up_proj" in name:
                tensors[name][...] = number
        save_file(tensors, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
        line = refusal(capsys, llama / "model.mebp", "--adapter", adapter, "-o", tmp_path / "out", "--dtype", dtype)
        assert "model.layers.2.mlp.up_proj.weight" in line and words in line
        assert [entry.name for entry in tmp_path.iterdir()] == ["adapter"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_leaves_nothing(llama, tmp_path, capsys):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this machine refuses to mount a small file system")
    try:
        line = refusal(capsys, llama / "model.mebp", "--adapter", llama / "adapter", "-o", disk / "out")
        assert "make room or choose another folder" in line and not list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_merge_holds_one_tensor_at_a_time(llama, tmp_path, monkeypatch):
    alive = []

    class Counted:
        """The runtime, which keeps an eye on the weights that it has read."""

        def __init__(self, path: str) -> None:
            self.bundle = load_runtime().Bundle(path)
            self.weights = self.bundle.weights
            self.references: list[weakref.ref] = []

        def read_weight(self, index: int) -> np.ndarray:
            weight = self.bundle.read_weight(index)
            self.references.append(weakref.ref(weight))
            alive.append(sum(reference() is not None for reference in self.references))
            return weight

    monkeypatch.setattr(merging, "load_runtime", lambda: SimpleNamespace(Bundle=Counted))
    result = mebp.merge(llama / "model.mebp", llama / "adapter", tmp_path / "merged")
    assert len(alive) == result.tensors > 20 and max(alive) <= 2  # the one just written, and the next
