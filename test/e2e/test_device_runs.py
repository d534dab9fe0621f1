# SPDX-License-Identifier: Apache-2.0
"""The same commands on another device: MLX's build for the CPU, which stands for its GPUs."""

import json

import numpy as np
import pytest

import mebp as package
from mebp import Error, Session
from support.commands import mebp, refusal
from support.models import build
from support.pipeline import make_bundle


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """A tiny model in f32."""
    folder = tmp_path_factory.mktemp("devices")
    return make_bundle(build("llama"), folder, seq_len=24, batch=2, precision="f32")


def test_a_step_is_the_same_on_both(exact):
    run = mebp("parity", exact, "--devices", "cpu,mlx-cpu", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    cpu, other = found["devices"]
    assert found["agrees"] and cpu["errors"] is None and other["kernels"] == "mlx"
    assert 0 < other["errors"]["loss"] + max(other["errors"]["gradients"].values()) < 2e-5
    text = mebp("parity", exact, "--devices", "cpu,mlx-cpu", "--seq-len", 7).stdout
    assert text.endswith("agrees\n") and "mlx-cpu" in text


def test_what_is_wrong_on_it_is_computed_in_another_way(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path))
    ids = np.arange(16).reshape(1, 16)
    quantised = Session(bundle, device="mlx-cpu", forward_only=True).loss(ids, ids)
    assert capsys.readouterr().err == ""
    [remembered] = tmp_path.glob("self_test_mlx-cpu.json")
    found = json.loads(remembered.read_text())
    remembered.write_text(
        json.dumps(
            found
            | {
                "routes": found["routes"] | {"quantised products": False},
                "avoided": ["quantised products are wrong"],
            }
        )
    )
    dense = Session(bundle, device="mlx-cpu", forward_only=True).loss(ids, ids)
    assert capsys.readouterr().err == "warning: the device 'mlx-cpu': quantised products are wrong\n"
    assert dense == pytest.approx(quantised, rel=1e-4)
    remembered.write_text(json.dumps(found | {"wrong": ["add(1x1 f32) is off"]}))
    with pytest.raises(Error, match="^the device 'mlx-cpu' computes wrong: add"):
        Session(bundle, device="mlx-cpu", forward_only=True)


def test_a_run_trains_on_it(bundle, data, tmp_path):
    losses = {}
    for device in ("cpu", "mlx-cpu"):
        log = tmp_path / f"{device}.jsonl"
        run = mebp("train", bundle, "--data", data, "--steps", 4, "--device", device, "--log", log)
        assert run.returncode == 0, run.stderr
        losses[device] = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        evaluated = mebp("eval", bundle, "--data", data, "--device", device, "--json")
        losses[device].append(json.loads(evaluated.stdout)["loss"])
    assert losses["mlx-cpu"] == pytest.approx(losses["cpu"], rel=2e-2) and losses["cpu"] != losses["mlx-cpu"]


def test_a_device_that_is_not_there(exact, bundle, data):
    known = "there is no device 'cuda'; choose cpu, mlx or mlx-cpu (an NVIDIA GPU is mlx, too)"
    assert refusal("train", bundle, "--data", data, "--device", "cuda").endswith(known)
    assert refusal("parity", exact, "--devices", "cpu,cuda") == f"mebp: cuda: {known}"
    for absent in (device for device in package.devices() if not device.is_there):
        with pytest.raises(Error, match="install"):
            Session(exact, absent.name)
        assert refusal("eval", bundle, "--data", data, "--device", absent.name) == f"mebp: {absent.description}"
        assert refusal("parity", exact, "--devices", f"cpu,{absent.name}").startswith(f"mebp: {absent.name}: ")


def test_what_cannot_be_compared(exact):
    assert "give two or more" in refusal("parity", exact, "--devices", "cpu")
    assert "names cpu twice" in refusal("parity", exact, "--devices", "cpu,cpu")
    assert "--seq-len" in refusal("parity", exact, "--devices", "cpu,mlx-cpu", "--seq-len", 1)
    assert "no bundle at" in refusal("parity", exact.with_name("none.mebp"), "--devices", "cpu,mlx-cpu")
