# SPDX-License-Identifier: Apache-2.0
"""Projected gradients (GaLore): against true float64 and, on recorded gradients, galore-torch; and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from parts import published_galore

import mebp
from mebp.inspect import inspect
from mebp.tools import find_tool, run_tool
from mebp.verification.comparison import Comparison, Errors, Gradients, relative_error
from mebp.verification.projection import project, project_all, read_projectors
from support import models
from support.judges import missing, reachable
from support.peaks import check_each_use, other_peaks
from support.pipeline import check, make_bundle, reference_for
from support.soak import SOAK

RANK, SEQUENCE, BATCH = 8, 40, 2
SCHEDULES = {
    "whole": {},
    "chunks": {"chunk_size": 7},
    "spaced": {"checkpoint_spacing": 2},
    "spilled": {"spill": "checkpoints"},
    "weights in a file": {"spill": "all"},
}


def make(folder: Path, family: str = "llama", **options: object) -> tuple:
    model = models.build(family)
    options = {"weights": "f32", "train": "full", "optimizer": "galore", "galore_rank": RANK} | options
    return model, make_bundle(model, folder, seq_len=SEQUENCE, batch=BATCH, **options)


def compare(bundle: Path, session: mebp.Session, model: object, ids: np.ndarray, labels: np.ndarray) -> Comparison:
    """Gradients in their subspaces, beside torch's whole ones in the same."""
    found = Gradients(*session.loss_and_gradients(ids, labels))
    projectors = read_projectors(session)

    def compute(dtype: torch.dtype) -> Gradients:
        loss, whole = reference_for(bundle, session, model, dtype).loss_and_gradients(ids, labels)
        return Gradients(loss, project_all(whole, projectors))

    exact = compute(torch.float64)
    errors = Errors.of(found, exact), Errors.of(compute(torch.float32), exact)
    return Comparison(*errors, "f32", len(projectors))


@pytest.mark.parametrize(
    ("family", "targets", "schedule"),
    [
        *(("llama", "all-linear", schedule) for schedule in SCHEDULES),
        *((family, "*", schedule) for family in ("qwen2", "phi3") for schedule in ("whole", "chunks")),
    ],
)
def test_gradients_are_projected(tmp_path, show, family, targets, schedule):
    model, bundle = make(tmp_path, family, train_targets=targets, **SCHEDULES[schedule])
    session = mebp.Session(bundle)
    for batch, sequence in [(2, 40), (1, 29)]:
        ids = models.token_ids(model, batch, sequence).numpy()
        labels = ids.copy()
        labels[:, 5:9] = -100
        result = compare(bundle, session, model, ids, labels)
        check(result)
        assert result.projected >= 4 * 2
        show(f"GaLore, {family}, {schedule}: {result.projected} projected; {result}")


@pytest.mark.parametrize("schedule", ["whole", "chunks"])
def test_smollm2(smollm2, long_rows, tmp_path, show, schedule):
    bundle = tmp_path / "model.mebp"
    options = {"weights": "f32", "precision": "f32", "train": "full", "optimizer": "galore", "galore_rank": 64}
    tokens = 128 if SOAK else 32
    chunk = {"whole": 0, "chunks": 3 * tokens // 8}[schedule]
    mebp.compile(smollm2.folder / "model.onnx", bundle, seq_len=tokens, chunk_size=chunk, **options)
    session = mebp.Session(bundle)
    ids = long_rows[:1, :tokens]
    found = compare(bundle, session, smollm2.model, ids, ids)
    show(f"SmolLM2-135M, GaLore of rank 64, {schedule}, {tokens} tokens: {found.projected} projected; {found}")
    assert found.projected == len(found.bundle.gradients) == 30 * 7
    assert found.bundle.worst <= 2e-5 and found.bundle.loss <= 2e-5


def held(gradients: dict[str, np.ndarray], projectors: dict[str, np.ndarray]) -> dict[str, float]:
    """What each subspace holds of a gradient's norm, by what the best of its rank does."""

    def best(gradient: np.ndarray) -> float:
        return np.sqrt((np.linalg.svd(gradient, compute_uv=False)[:RANK] ** 2).sum())

    return {
        key: np.linalg.norm(project(gradients[key], projector)) / best(gradients[key])
        for key, projector in projectors.items()
    }


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_a_subspace_is_that_of_the_largest_singular_values(tmp_path, family):
    model, bundle = make(tmp_path, family)
    session = mebp.Session(bundle)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    session.loss_and_gradients(ids, ids)
    _, exact = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, ids)
    projectors = read_projectors(session)
    for key, projector in projectors.items():
        rows = projector if exact[key].shape[0] >= exact[key].shape[1] else projector.T
        np.testing.assert_allclose(rows @ rows.T, np.eye(RANK), atol=1e-5)
    assert min(held(exact, projectors).values()) > 0.99


@pytest.mark.parametrize("schedule", ["whole", "spaced", "spilled", "weights in a file"])
def test_a_subspace_is_of_all_micro_batches(tmp_path, schedule):
    """The first has no labels, and the second few."""
    model, bundle = make(tmp_path, **SCHEDULES[schedule])
    session = mebp.Session(bundle, lr=0.0, accumulate=True)
    ids = models.token_ids(model, 3, SEQUENCE).numpy()
    labels = ids.copy()
    labels[0] = -100
    labels[1, 6:] = -100
    session.step([ids[:1], ids[1:2], ids[2:, :31]], [labels[:1], labels[1:2], labels[2:, :31]])
    labels[2, 31:] = -100
    _, exact = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, labels)
    assert min(held(exact, read_projectors(session)).values()) > 0.99
    session = mebp.Session(bundle, lr=0.0)
    session.step(ids[1:2], labels[1:2])
    assert min(held(exact, read_projectors(session)).values()) < 0.9


def galore_adamw():
    """galore-torch's."""
    with reachable():
        try:
            return published_galore.load_adamw().AdamW
        except ImportError as error:
            missing(str(error))


def _exact_svd(matrix: torch.Tensor, full_matrices: bool):
    """In float64, and with our rule of signs: of a vector on the smaller side, the largest element is positive."""
    u, s, v = svd(matrix.double(), full_matrices=full_matrices)
    vectors = v if matrix.shape[0] >= matrix.shape[1] else u.T
    signs = torch.sign(torch.take_along_dim(vectors, vectors.abs().argmax(1, keepdim=True), 1))[:, 0]
    return (u * signs).float(), s.float(), (v * signs[:, None]).float()


svd = torch.linalg.svd


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_parameters_follow_galore_torch(tmp_path, monkeypatch, show, weight_decay):
    adamw = galore_adamw()
    monkeypatch.setattr(torch.linalg, "svd", _exact_svd)
    steps, interval = 50, 20
    _, bundle = make(tmp_path, train_targets=["*proj", "*norm*"])
    session = mebp.Session(bundle, lr=1e-3, weight_decay=weight_decay, galore_update_interval=interval)
    parameters = {key: torch.nn.Parameter(torch.from_numpy(values)) for key, values in session.trainables().items()}
    ranks = {tensor["name"]: tensor["gradient_rank"] for tensor in inspect(bundle)["trainables"]}
    assert set(ranks.values()) == {0, RANK}
    options = {"rank": RANK, "update_proj_gap": interval, "scale": 0.25, "proj_type": "std"}
    groups = [{"params": [parameters[key]]} | (options if rank else {}) for key, rank in ranks.items()]
    optimizer = adamw(groups, lr=1e-3, weight_decay=weight_decay, no_deprecation_warning=True)
    generator = np.random.default_rng(0)
    for _ in range(steps):
        scale = 10.0 ** generator.uniform(-6, 0)
        gradients = {}
        for key, parameter in parameters.items():
            gradients[key] = (scale * generator.normal(size=parameter.shape)).astype(np.float32)
            parameter.grad = torch.from_numpy(gradients[key].copy())
        optimizer.step()
        session.apply_gradients(gradients)
    ours = session.trainables()
    errors = [relative_error(ours[key], parameter.detach().numpy()) for key, parameter in parameters.items()]
    show(f"GaLore, decay {weight_decay}, {steps} steps: parameters within {max(errors):.1e} of galore-torch's")
    assert max(errors) <= 1e-6


@pytest.mark.parametrize("accumulate", [False, True])
def test_steps_follow_galore_torch(tmp_path, monkeypatch, show, accumulate):
    """Real steps, with subspaces by the exact decomposition; sketched ones come to other parameters."""
    adamw = galore_adamw()
    monkeypatch.setattr(torch.linalg, "svd", _exact_svd)
    model, bundle = make(tmp_path)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    batch = [ids[:1], ids[1:]] if accumulate else ids
    options = {"lr": 1e-3, "galore_update_interval": 4, "accumulate": accumulate}
    exact, sketched = (mebp.Session(bundle, galore_refresh=how, **options) for how in ("svd", "sketch"))
    begun = exact.trainables()
    reference = reference_for(bundle, exact, model, torch.float64)
    projection = {"rank": RANK, "update_proj_gap": 4, "scale": 0.25, "proj_type": "std"}
    optimizer = adamw(
        [{"params": list(reference.parameters().values())} | projection], lr=1e-3, no_deprecation_warning=True
    )
    losses = []
    for _ in range(10):
        wanted, _ = reference.loss_and_gradients(ids, ids)
        losses.append(relative_error(exact.step(batch, batch).loss, wanted))
        sketched.step(batch, batch)
        optimizer.step()

    def farthest(session: mebp.Session) -> float:
        """Of all parameters' changes."""
        return max(
            relative_error(values - begun[key], reference.parameters()[key].detach().numpy() - begun[key])
            for key, values in session.trainables().items()
        )

    by = {"svd": farthest(exact), "sketch": farthest(sketched)}
    show(f"GaLore, 10 steps with galore-torch: losses within {max(losses):.1e}, changes of parameters within {by}")
    assert max(losses) <= 1e-6 and by["svd"] <= 1e-3 < by["sketch"]


STORED = {"f32": {}, "bf16": {"weights": "bf16", "precision": "bf16"}, "in a file": {"spill": "all"}}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("accumulate", [False, True])
def test_steps_learn_and_resume_bitwise(tmp_path, accumulate, stored):
    model, bundle = make(tmp_path, **STORED[stored])
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    batch = [ids[:1], ids[1:]] if accumulate else ids
    options = {"lr": 1e-2, "galore_update_interval": 2, "accumulate": accumulate, "galore_scale": 1.0}
    session = mebp.Session(bundle, threads=1, **options)
    before = session.loss(ids, ids)
    for _ in range(3):
        session.step(batch, batch)
    session.save_state(tmp_path / "state")
    for _ in range(3):
        session.step(batch, batch)
    assert session.loss(ids, ids) < before / 2
    again = mebp.Session(bundle, threads=2, **options)
    again.load_state(tmp_path / "state")
    for _ in range(3):
        again.step(batch, batch)
    trained = again.trainables()
    assert all(np.array_equal(values, trained[key]) for key, values in session.trainables().items())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_plan_is_the_sessions(tmp_path, schedule):
    _, bundle = make(tmp_path, **SCHEDULES[schedule])
    peaks = other_peaks(bundle)
    assert {name.split(",")[0] for name in peaks} == {"galore", "mezo"}
    session = check_each_use(bundle, "galore", peaks)
    assert session.plan["arenas"]["subspaces"] > 0
    session = mebp.Session(bundle, return_gradients=False, galore_refresh="svd")
    assert session.plan["planned_peak_bytes"] == peaks["galore, subspaces by svd, gradients applied at once"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_value_has_the_shape_of_a_gradient(tmp_path, schedule):
    """Of all programs of the bundle, those that find subspaces among them. A weight itself comes from outside."""

    def made(**options: object) -> tuple[set, set]:
        folder = tmp_path / options.get("optimizer", "galore")
        description = inspect(make(folder, **SCHEDULES[schedule], **options)[1])
        shapes = {(tensor["rows"], tensor["columns"]) for tensor in description["trainables"]}
        values = set()
        for program in description["programs"]:
            taken = {port["value"] for port in program["takes"] if port["kind"] == "parameter"}
            values |= {
                (tensor["rows"], tensor["columns"])
                for number, tensor in enumerate(program["tensors"])
                if number not in taken
            }
        return shapes, values

    shapes, values = made()
    assert shapes and not shapes & values
    shapes, values = made(optimizer="adamw", galore_rank=None)
    assert shapes <= values, "the test sees no gradient"


@pytest.mark.parametrize("options", [{}, {"optimizer": "qgalore", "weights": "int8"}], ids=["galore", "qgalore"])
def test_the_runtime_alone_takes_the_bundle_s_optimizer(tmp_path, options):
    model, bundle = make(tmp_path, **options)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    np.save(tmp_path / "tokens.npy", ids)
    command = [find_tool("mebp-run"), str(bundle), "--tokens", str(tmp_path / "tokens.npy"), "--steps", "3", "--json"]
    lines = [json.loads(line) for line in run_tool([*command, "--lr", "1e-2"]).splitlines()]
    session = mebp.Session(bundle, lr=1e-2)
    assert [line["loss"] for line in lines[:-1]] == pytest.approx([session.step(ids, ids).loss for _ in range(3)])


def test_resident_weights_may_be_limited(tmp_path):
    """A projector is an input as weights are, and lies elsewhere."""
    model, bundle = make(tmp_path)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    limited, free = mebp.Session(bundle, resident_limit="4MB"), mebp.Session(bundle)
    assert limited.step(ids, ids).loss == free.step(ids, ids).loss


def test_other_optimizers_and_bundles_are_refused(tmp_path):
    _, bundle = make(tmp_path)
    with pytest.raises(mebp.Error) as refused:
        mebp.Session(bundle, optimizer="adamw")
    assert str(refused.value) == (
        "the bundle gives projected gradients, which adamw does not take; choose galore, or compile it for another "
        "optimizer"
    )
    for name, value, why in [
        ("galore_update_interval", 0, "galore_update_interval is 0; give a whole number above 0"),
        ("galore_update_interval", 0.5, "galore_update_interval is 0.5; give a whole number above 0"),
        ("galore_scale", -1, "galore_scale is -1; give a finite number above 0"),
        ("galore_refresh", "exact", "galore_refresh is 'exact'; choose sketch or svd"),
    ]:
        with pytest.raises(mebp.Error) as refused:
            mebp.Session(bundle, **{name: value})
        assert str(refused.value) == why
    plain = tmp_path / "plain"
    plain.mkdir()
    _, bundle = make(plain, optimizer=None, galore_rank=None)
    with pytest.raises(mebp.Error) as refused:
        mebp.Session(bundle, optimizer="galore")
    assert str(refused.value) == (
        "the bundle gives whole gradients, which galore does not take; compile it with --train full --optimizer galore"
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"galore_rank": 65}, "--galore-rank 65 is above the smaller side of "),
        ({"galore_rank": 0}, "--galore-rank 0: give a rank of at least 1"),
        ({"train_targets": "*norm*"}, "--galore-rank: nothing that is trained is a linear layer's own weight"),
        ({"train_targets": "*nothing*"}, "--train-targets '*nothing*': matches no parameter"),
        ({"train": "lora"}, "--optimizer galore: is not for --train lora; give --train full, or another optimizer"),
        (
            {"optimizer": "adamw"},
            "--galore-rank: is not for --optimizer adamw; leave it out, or give --optimizer galore or qgalore",
        ),
    ],
)
def test_what_mebpc_refuses(tmp_path, options, why):
    with pytest.raises(mebp.Error) as refused:
        make(tmp_path, **options)
    assert why in str(refused.value)
    assert not (tmp_path / "model.mebp").exists()
