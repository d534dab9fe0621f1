# SPDX-License-Identifier: Apache-2.0
"""Samples that share a row: loss and gradients are those of the samples one by one."""

import subprocess
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.arrays import IGNORED_LABEL
from mebp.tools import find_tool
from mebp.verification.inputs import randomise_adapter
from support import models
from support.exports import export

SEQUENCE = 96
# Two rows: samples that end within chunks and tiles of keys, one token alone, and one up to the end of a row.
ROWS = [[20, 33, 1, 17], [41, 55]]


class Samples:
    def __init__(self, model, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.ids = [[generator.integers(0, model.config.vocab_size, length) for length in row] for row in ROWS]
        self.labels = [
            [np.where(generator.random(len(ids)) < 0.2, IGNORED_LABEL, ids) for ids in row] for row in self.ids
        ]

    def packed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, labels and starts; what fills up a row belongs to its last sample."""
        ids, labels, starts = (np.zeros((len(ROWS), SEQUENCE), dtype=np.int64) for _ in range(3))
        labels[:] = IGNORED_LABEL
        for row, lengths in enumerate(ROWS):
            start = 0
            for sample, length in enumerate(lengths):
                ids[row, start : start + length] = self.ids[row][sample]
                labels[row, start : start + length] = self.labels[row][sample]
                starts[row, start:] = start
                start += length
        return ids, labels, starts

    def one_by_one(self, session: mebp.Session) -> tuple[float, dict[str, np.ndarray]]:
        """The mean over all labels of losses and gradients of the samples alone."""
        loss, gradients, count = 0.0, {}, 0
        for ids, labels in zip(chain(*self.ids), chain(*self.labels), strict=True):
            counted = np.count_nonzero(labels[1:] != IGNORED_LABEL)
            if counted == 0:
                continue
            part, found = session.loss_and_gradients(ids[None], labels[None])
            loss += counted * part
            count += counted
            for key, values in found.items():
                gradients[key] = gradients.get(key, 0) + counted * values.astype(np.float64)
        return loss / count, {key: values / count for key, values in gradients.items()}


def largest_distance(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Relative, in the L2 norm, over the tensors."""
    assert found.keys() == expected.keys()
    return max(np.linalg.norm(found[key] - expected[key]) / np.linalg.norm(expected[key]) for key in expected)


def compiled(folder: Path, family: str, **options: object) -> tuple[object, Path]:
    model = models.build(family)
    export(model, folder / "model.onnx", seq_len=SEQUENCE, batch=2)
    mebp.compile(folder / "model.onnx", folder / "model.mebp", packing=True, **options)
    return model, folder / "model.mebp"


F32 = {"precision": "f32", "weights": "f32"}


@pytest.mark.parametrize(
    "family, options, tolerance",
    [
        ("llama", {**F32, "chunk_size": 16}, 1e-5),
        ("llama", {**F32, "memory_budget": "1GB"}, 1e-5),
        ("llama", {"precision": "bf16"}, 2e-2),
        ("llama", {**F32, "adapter": mebp.PrivateLoRA(rank_down=8, rank_up=8)}, 1e-5),
        ("gpt2", {**F32, "chunk_size": 32}, 1e-5),
        ("gpt2", {**F32, "train": "full", "train_targets": ["*wpe*", "*ln_*"]}, 1e-5),
        ("gemma2", {**F32, "chunk_size": 0}, 1e-5),
        ("gemma3_text", {**F32, "chunk_size": 32}, 1e-5),
        ("gemma3_text", {"precision": "bf16", "memory_budget": "1GB"}, 2e-2),
        ("gptj", {**F32, "chunk_size": 16}, 1e-5),
        ("gpt_neox", {**F32, "chunk_size": 0}, 1e-5),
        ("opt", {**F32, "chunk_size": 16}, 1e-5),
        ("bloom", {**F32, "chunk_size": 16}, 1e-5),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_gradients_are_those_of_samples_one_by_one(tmp_path, family, options, tolerance):
    model, bundle = compiled(tmp_path, family, **options)
    session = mebp.Session(bundle, threads=1)
    assert session.packs
    randomise_adapter(session)
    samples = Samples(model)
    loss, gradients = session.loss_and_gradients(*samples.packed())
    expected, one_by_one = samples.one_by_one(session)
    assert abs(loss - expected) <= tolerance * expected
    assert session.loss(*samples.packed()) == loss
    assert largest_distance(gradients, one_by_one) <= tolerance
    # Without starts, a row is one sample.
    assert abs(session.loss(*samples.packed()[:2]) - expected) > 1e-4 * expected


def test_without_samples_bits_are_those_of_a_bundle_that_does_not_pack(tmp_path):
    model, bundle = compiled(tmp_path, "llama", chunk_size=16)
    plain = tmp_path / "plain.mebp"
    mebp.compile(tmp_path / "model.onnx", plain, chunk_size=16)
    ids = models.token_ids(model, 2, 70).numpy()
    found = []
    for path in (bundle, plain):
        session = mebp.Session(path, threads=1)
        randomise_adapter(session)
        found.append(session.loss_and_gradients(ids, ids))
    assert found[0][0] == found[1][0] and not session.packs
    assert all(np.array_equal(found[0][1][key], found[1][1][key]) for key in found[1][1])


@pytest.mark.parametrize("device", ["cpu", "mlx-cpu"])
def test_steps_over_micro_batches(tmp_path, device):
    """The plan has room for starts, and a step takes some with and some without."""
    model, bundle = compiled(tmp_path, "gemma3_text", generate_len=SEQUENCE, precision="f32")
    sessions = [mebp.Session(bundle, device=where, optimizer="sgd", accumulate=True) for where in (device, "cpu")]
    ids, labels, starts = Samples(model).packed()
    whole = np.zeros_like(starts)
    for session in sessions:
        session.step([ids, ids[:, :50]], [labels, ids[:, :50]], [starts, whole[:, :50]])
    assert sessions[0].plan["arenas"]["tokens"] == sessions[1].plan["arenas"]["tokens"]
    left, right = (session.trainables() for session in sessions)
    assert largest_distance(left, right) < 1e-5
    assert session.generate(ids[:1, :5], 4).shape == (1, 9)  # of which no program is packed


def test_refusals(tmp_path):
    model, bundle = compiled(tmp_path, "llama")
    ids, labels, starts = Samples(model).packed()
    session = mebp.Session(bundle)

    def refusal(*arguments: object) -> str:
        with pytest.raises(mebp.Error) as error:
            session.loss(*arguments)
        return str(error.value)

    assert "starts has shape [2, 95]; give one for each token, [2, 96]" in refusal(ids, labels, starts[:, 1:])
    for row, position, value in [(0, 0, 1), (1, 41, 40), (1, 60, 0), (0, 30, -1), (0, 25, 26)]:
        wrong = starts.copy()
        wrong[row, position] = value
        assert f"starts at row {row}, position {position} is {value}; a sample starts there" in refusal(
            ids, labels, wrong
        )
    mebp.compile(tmp_path / "model.onnx", tmp_path / "plain.mebp")
    session = mebp.Session(tmp_path / "plain.mebp")
    assert "cannot take several samples in a row; compile it with --packing" in refusal(ids, labels, starts)
    command = [find_tool("mebpc"), "--check-options", "--packing", "--adapter", "private-lora"]
    run = subprocess.run([*command, "--split", "private-lora"], capture_output=True, text=True)
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1
    assert "--packing: is not for --split" in run.stderr


def test_learned_positions_are_no_fewer_than_a_row(tmp_path):
    export(models.build("gpt2"), tmp_path / "model.onnx", seq_len=SEQUENCE)
    with pytest.raises(mebp.Error, match="--seq-len 256 is more than .*; give at most 128"):
        mebp.compile(tmp_path / "model.onnx", tmp_path / "model.mebp", seq_len=256, packing=True)
