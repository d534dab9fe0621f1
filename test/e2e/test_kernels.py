# SPDX-License-Identifier: Apache-2.0
"""MEBP_KERNELS, for the whole of a process, and every family of kernels against float64."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import mebp
from mebp.tools import find_tool
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import MEBP, TIMEOUT
from support.kernels import NO_SUCH, kernel_families, python
from support.pipeline import check, compare_gradients, make_bundle, reference_for


def train(bundle, data, kernels: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"MEBP_KERNELS": kernels}
    command = [*MEBP, "train", bundle, "--data", data, "--steps", "1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment)


@pytest.fixture(scope="module")
def available(bundle) -> list[str]:
    return kernel_families(bundle)


def test_a_session_says_which_run(bundle, available):
    code = "import sys, mebp; print(mebp.Session(sys.argv[1]).kernels)"
    for kernels in ["", *available]:
        run = python(code, bundle, kernels=kernels)
        assert run.stdout.strip() == (kernels or available[0]), run.stderr


def test_the_naive_kernels_win(bundle, available):
    code = "import sys, mebp; print(mebp.Session(sys.argv[1], reference_kernels=True).kernels)"
    assert python(code, bundle, kernels=available[0]).stdout.strip() == "reference"


def test_training_says_which_run(bundle, data, available):
    run = train(bundle, data, available[-2])
    assert run.returncode == 0 and f", {available[-2]} kernels; " in run.stdout.splitlines()[0], run.stderr


def test_training_refuses_what_is_not_there(bundle, data):
    run = train(bundle, data, "avx1024")
    assert run.returncode == 2 and run.stdout == "", run.stdout
    assert NO_SUCH.fullmatch(run.stderr.removeprefix("mebp: ")), run.stderr


# Each machine that gradients are computed on: what runs programs for it, and where `make test` builds them.
AARCH64 = Path(__file__).resolve().parents[2] / "build" / "aarch64" / "bin"
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]


@dataclass(frozen=True)
class Elsewhere:
    """A session whose gradients another process computes, here or by qemu, with the kernels that it is told."""

    session: mebp.Session
    kernels: str
    folder: Path
    program: list[str]

    def base_weights(self) -> dict[str, np.ndarray]:
        return self.session.base_weights()

    def frozen_factors(self) -> dict[str, np.ndarray]:
        return self.session.frozen_factors()

    def trainables(self) -> dict[str, np.ndarray]:
        return self.session.trainables()

    def loss_and_gradients(self, ids: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        assert np.array_equal(ids, labels)
        adapter, tokens, out = (self.folder / name for name in ("adapter", "tokens", "out"))
        self.session.save_adapter(adapter)
        tokens.write_bytes(ids.astype("<i4").tobytes())
        run = subprocess.run(
            [*self.program, self.session.path, adapter, str(len(ids)), tokens, out],
            env=os.environ | {"MEBP_KERNELS": self.kernels, "QEMU_CPU": "max"},
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        assert run.stdout.strip() == self.kernels, run.stderr
        numbers, gradients, at = np.fromfile(out, "<f4"), {}, 1
        for key, values in self.trainables().items():
            gradients[key] = numbers[at : at + values.size].reshape(values.shape)
            at += values.size
        assert at == len(numbers)
        return float(numbers[0]), gradients


# Sizes that divide nothing, and each way to store weights.
CASES = {
    "llama": ("int4", {"hidden_size": 84, "head_dim": 14, "num_attention_heads": 6, "num_key_value_heads": 2,
                       "intermediate_size": 130, "attention_bias": True}),
    "qwen2": ("bf16", {"hidden_size": 72, "head_dim": 12, "num_attention_heads": 6, "num_key_value_heads": 3,
                       "intermediate_size": 150}),
    "gpt2": ("int8", {}),
}  # fmt: skip


@pytest.mark.parametrize("family", CASES)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_gradients_are_float64s(tmp_path, show, available, family, precision):
    check_gradients(tmp_path, show, family, precision, available, [find_tool("session_gradients")])


@pytest.mark.skipif(
    not (AARCH64 / "session_gradients").exists(), reason="scripts/test_aarch64.sh builds what this runs"
)
@pytest.mark.parametrize("family", CASES)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_gradients_on_aarch64_are_float64s(tmp_path, show, family, precision):
    program = [*QEMU, str(AARCH64 / "session_gradients")]
    check_gradients(tmp_path, show, family, precision, ["neon_bf16", "neon"], program)


def check_gradients(folder: Path, show, family: str, precision: str, kernels: list[str], program: list[str]) -> None:
    weights, sizes = CASES[family]
    model = models.build(family, **sizes)
    bundle = make_bundle(model, folder, seq_len=48, batch=2, weights=weights, precision=precision)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    ids = models.token_ids(model, 2, 41).numpy()
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
    exact = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, ids)
    for name in kernels:
        result = compare_gradients(bundle, Elsewhere(session, name, folder, program), model, ids, ids, dtype, exact)
        show(f"{name}, {family}, {precision}, weights {weights}: {result}")
        check(result)
