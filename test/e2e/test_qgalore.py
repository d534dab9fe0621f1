# SPDX-License-Identifier: Apache-2.0
"""Q-GaLore: weights and moments of eight bits, projectors of four, and refreshes that become rarer."""

import json
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import mebp
from mebp.exporter.checkpoint import read_header
from mebp.inspect import inspect
from mebp.tools import find_tool
from mebp.verification.comparison import relative_error
from mebp.verification.projection import decode, project, project_all, read_projectors
from support import models
from support.commands import mebp as run_mebp
from support.peaks import check_each_use, other_peaks
from support.pipeline import make_bundle, reference_for
from support.qgalore_reference import BLOCK, Coded, adam_in_subspace, draws, dynamic_map, grid, positions
from support.textmodel import TEXT, make_text_bundle

RANK, SEQUENCE, BATCH = 8, 40, 2


def make(folder: Path, family: str = "llama", **options: object) -> tuple:
    model = models.build(family)
    options = {"weights": "int8", "train": "full", "optimizer": "qgalore", "galore_rank": RANK} | options
    return model, make_bundle(model, folder, seq_len=SEQUENCE, batch=BATCH, **options)


def saved(session: mebp.Session, folder: Path) -> dict[str, np.ndarray]:
    session.save_state(folder / "saved")
    (newest,) = (path for path in (folder / "saved").glob("state.*") if "previous" not in path.name)
    return load_file(newest)


@pytest.mark.parametrize(
    "options",
    [{}, {"spill": "all"}, {"train_targets": "*", "embedding_weights": "int8"}, {"weights": "bf16"}],
    ids=["layers", "in a file", "all", "bf16"],
)
def test_it_learns_and_resumes_bitwise(tmp_path, options):
    model, bundle = make(tmp_path, **options)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    session = mebp.Session(bundle, lr=1e-2, galore_update_interval=2)
    losses = [session.step(ids, ids).loss for _ in range(6)]
    session.save_state(tmp_path / "state")
    further = [session.step(ids, ids).loss for _ in range(6)]
    assert further[-1] < losses[0]
    resumed = mebp.Session(bundle, lr=1e-2, galore_update_interval=2, threads=1)
    resumed.load_state(tmp_path / "state")
    assert [resumed.step(ids, ids).loss for _ in range(6)] == further
    ends = [saved(one, tmp_path / name) for one, name in ((session, "a"), (resumed, "b"))]
    for name in ends[0]:
        if not name.startswith("mebp."):
            assert ends[0][name].tobytes() == ends[1][name].tobytes(), name


def test_a_state_s_counts_lead_nowhere(tmp_path):
    """One is an index: a stranger's state wrote a step's result wherever it said."""
    model, bundle = make(tmp_path)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    session = mebp.Session(bundle, galore_update_interval=1)
    session.step(ids, ids)
    counts = {key: value for key, value in saved(session, tmp_path).items() if key.endswith("/subspace.period")}
    path = tmp_path / "saved" / "state.bin"
    name, whole = min(counts), path.read_bytes()
    stored = read_header(path)[name]
    after = stored.offset + stored.length
    for index, value in [(2, -(1 << 40)), (2, 6), (0, -1), (1, -1), (3, -1)]:
        odd = counts[name].copy()
        odd[0, index] = value
        changed = whole[: stored.offset] + odd.tobytes() + whole[after:-4]
        path.write_bytes(changed + zlib.crc32(changed).to_bytes(4, "little"))
        with pytest.raises(mebp.Error) as caught:
            session.load_state(tmp_path / "saved")
        line = f"{tmp_path / 'saved'}: '{name}' has counts that no run leaves; the file is damaged, start over"
        assert str(caught.value) == line
    path.write_bytes(whole)
    session.load_state(tmp_path / "saved")
    session.step(ids, ids)


def test_peaks_are_as_planned(tmp_path):
    _, bundle = make(tmp_path)
    check_each_use(bundle, "qgalore", other_peaks(bundle))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_parameters_follow_the_published_equations(tmp_path, show, weight_decay):
    """On recorded gradients, step by step from what the state has: a rounding that goes the other way because a sum
    was rounded otherwise does not spread."""
    _, bundle = make(tmp_path)
    lr, scale, steps = 1e-2, 0.25, 50
    session = mebp.Session(bundle, lr=lr, weight_decay=weight_decay, galore_update_interval=7, galore_scale=scale)
    shapes = {key: values.shape for key, values in session.trainables().items()}
    random = np.random.default_rng(1)
    maps = {"exp_avg": dynamic_map(True), "exp_avg_sq": dynamic_map(False)}
    before, compared, other_way, moved = saved(session, tmp_path), 0, 0, 0
    for step in range(steps):
        low_rank = {key: random.normal(size=(s[0], 12)) @ random.normal(size=(12, s[1])) for key, s in shapes.items()}
        gradients = {key: values.astype(np.float32) for key, values in low_rank.items()}
        session.apply_gradients(gradients)
        after, projectors = saved(session, tmp_path), read_projectors(session)
        for number, key in enumerate(shapes):
            projector, gradient = projectors[key].astype(np.float64), gradients[key].astype(np.float64)
            low = project(gradient, projector)
            old = [moment(before, f"{key}/{name}", values, low.shape) for name, values in maps.items()]
            mean, square, change = adam_in_subspace(low, *old, step + 1, lr)
            for name, values, wanted in zip(maps, maps.values(), (mean, square), strict=True):
                check_moment(moment(after, f"{key}/{name}", values, low.shape), wanted, values)
            on_right = shapes[key][0] >= shapes[key][1]
            whole = scale * (change @ projector if on_right else projector @ change)
            columns = shapes[key][1]
            stored = decode(before[key], before[f"{key}/scales"], before[f"{key}/minima"]).astype(np.float64)
            wanted = (stored[:, :columns] + whole) * (1 - lr * weight_decay)
            for ours, theirs in zip((after[f"{key}/scales"], after[f"{key}/minima"]), grid(wanted), strict=True):
                np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=2**-10)
            place = positions(wanted, after[f"{key}/scales"], after[f"{key}/minima"])
            draw = draws(0, step, number, shapes[key])
            rounded = np.floor(place) + (draw < place - np.floor(place))
            odd = rounded != after[key][:, :columns]
            # Either the draw is as near to its threshold as sums are exact, or the number is to a code.
            near = np.minimum(abs(draw - (place - np.floor(place))), abs(place - np.round(place)))
            assert (near[odd] < 1e-3).all()
            compared, other_way, moved = compared + odd.size, other_way + odd.sum(), moved + (whole != 0).sum()
        before = after
    assert moved > compared / 2 and other_way < 1e-3 * compared
    show(f"Q-GaLore, decay {weight_decay}, {steps} steps: {other_way} of {compared:,} elements rounded otherwise")


def moment(state: dict[str, np.ndarray], name: str, values: np.ndarray, shape: tuple) -> np.ndarray:
    if name in state:  # of a small tensor
        return state[name].astype(np.float64).reshape(shape)
    return Coded(state[f"{name}.codes"].reshape(shape), state[f"{name}.absmax"].reshape(-1), values).decode()


def check_moment(ours: np.ndarray, wanted: np.ndarray, values: np.ndarray) -> None:
    """Each is the nearest of the map, times the block's largest magnitude; or f32."""
    flat, exact = ours.reshape(-1), wanted.reshape(-1)
    if flat.size < 4096:
        np.testing.assert_allclose(flat, exact, rtol=2e-5, atol=2e-6 * abs(exact).max())
        return
    for begin in range(0, flat.size, BLOCK):
        block = exact[begin : begin + BLOCK]
        largest = abs(block).max()
        nearest = abs(values[None] - block[:, None] / largest).min(1)
        assert (abs(flat[begin : begin + BLOCK] - block) <= largest * (nearest + 2e-5)).all()


def test_a_projector_is_rounded_to_four_bits(tmp_path):
    """Against that which GaLore keeps of the same gradients."""
    _, bundle = make(tmp_path)
    (tmp_path / "galore").mkdir()
    _, exact_bundle = make(tmp_path / "galore", optimizer="galore", weights="f32")
    sessions = [mebp.Session(each, lr=0.0) for each in (bundle, exact_bundle)]
    random = np.random.default_rng(2)
    gradients = {key: random.normal(size=v.shape).astype(np.float32) for key, v in sessions[0].trainables().items()}
    for session in sessions:
        session.apply_gradients(gradients)
    coded, exact = (read_projectors(session) for session in sessions)
    assert coded.keys() == exact.keys() and len(coded) == 21
    for key, projector in exact.items():
        for begin in range(0, projector.shape[1], 32):
            group = projector[:, begin : begin + 32]
            step = (np.ptp(group, 1) / 15)[:, None]
            assert (abs(coded[key][:, begin : begin + 32] - group) <= 0.51 * step + 1e-4).all()
        assert np.unique(coded[key][0, :32]).size <= 16


@pytest.mark.parametrize("schedule", ["whole", "chunks", "in a file"])
def test_gradients_are_torchs_in_the_subspace(tmp_path, show, schedule):
    options = {"whole": {}, "chunks": {"chunk_size": 7}, "in a file": {"spill": "all"}}[schedule]
    model, bundle = make(tmp_path, precision="f32", **options)
    session = mebp.Session(bundle)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    loss, found = session.loss_and_gradients(ids, ids)
    projectors = read_projectors(session)
    exact_loss, whole = reference_for(bundle, session, model, torch.float64).loss_and_gradients(ids, ids)
    errors = [relative_error(found[key], each) for key, each in project_all(whole, projectors).items()]
    show(f"Q-GaLore, {schedule}: {len(projectors)} projected by int4, worst {max(errors):.1e}")
    assert len(projectors) == 21 and max(errors) < 2e-5 and relative_error(loss, exact_loss) < 2e-5


def test_refreshes_become_rarer_and_are_told(tmp_path):
    model, bundle = make(tmp_path)
    ids = models.token_ids(model, BATCH, SEQUENCE).numpy()
    for threshold, rarer in ((1e-6, True), (2.0, False)):
        session = mebp.Session(bundle, lr=1e-4, galore_update_interval=1, galore_cos_threshold=threshold)
        for step in range(12):
            session.loss_and_gradients(ids, ids)  # finds them as well, and counts nothing
            session.step(ids, ids)
            assert session.refreshes[1] == 21 * (step + 1)
        # Steps 0 to 5, each to the sixth; from then on the period is 2, then 4, then 8.
        assert session.refreshes[0] == 21 * (8 if rarer else 12)


def test_the_command_tells_what_was_saved(tmp_path):
    bundle = make_text_bundle(tmp_path, weights="int8", train="full", optimizer="qgalore", galore_rank=RANK)
    (tmp_path / "data.txt").write_text(TEXT)
    run = run_mebp("train", bundle, "--data", tmp_path / "data.txt", "--steps", 12, "--galore-update-interval", 1,
                   "--galore-cos-threshold", 1e-6, "--model-out", tmp_path / "out")  # fmt: skip
    assert run.returncode == 0, run.stderr
    matrices = sum(trained["gradient_rank"] > 0 for trained in inspect(bundle)["trainables"])
    line = f"Refreshes: {8 * matrices} of {12 * matrices} that a fixed interval of 1 step makes (33 % saved)"
    assert line in run.stdout.splitlines()
    trained = load_file(tmp_path / "out" / "model.safetensors")
    assert {str(values.dtype) for values in trained.values()} <= {"float32", "bfloat16"}


LLAMA_7B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip


def test_llama_7b_trains_in_4_gb_by_plan(tmp_path, show):
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "config.json").write_text(json.dumps(LLAMA_7B))
    model, plan = tmp_path / "out" / "model.onnx", tmp_path / "plan.json"
    exported = run_mebp("export", tmp_path / "shape", "--shape-only", "--seq-len", 256, "-o", model)
    assert exported.returncode == 0, exported.stderr
    command = [find_tool("mebpc"), model, "--plan-only", "--plan-json", plan, "--weights", "int8", "--train", "full",
               "--optimizer", "qgalore", "--galore-rank", 1024, "--spill", "all", "--threads", 4]  # fmt: skip
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    peak = json.loads(plan.read_text())["peak_bytes"]
    show(f"Q-GaLore of Llama-7B's shape, rank 1,024, 256 tokens: {peak / 1e6:.1f} MB planned")
    assert peak < 1.5e9


def test_other_optimizers_and_storages_are_refused(tmp_path):
    _, bundle = make(tmp_path)
    for optimizer, why in [
        ("galore", "the bundle has projectors in int4, which galore does not keep; choose qgalore, or compile it for "
                   "another optimizer"),
        ("adamw", "the bundle gives projected gradients, which adamw does not take; choose qgalore, or compile it for "
                  "another optimizer"),
    ]:  # fmt: skip
        with pytest.raises(mebp.Error) as refused:
            mebp.Session(bundle, optimizer=optimizer)
        assert str(refused.value) == why
    with pytest.raises(mebp.Error) as refused:
        mebp.Session(bundle, galore_cos_threshold=-1)
    assert str(refused.value) == "galore_cos_threshold is -1; give a finite number above 0"
    with pytest.raises(mebp.Error) as refused:
        make(tmp_path, weights="int4")
    assert (
        "would be stored as int4, which a step cannot change; give --weights int8, bf16 or f32, --weights-for '"
        in str(refused.value)
    )
    with pytest.raises(mebp.Error) as refused:
        make(tmp_path, optimizer="adamw", galore_rank=None)
    assert "would be stored as int8, which a step cannot change; give --weights bf16 or f32, --weights-for '" in str(
        refused.value
    )
    with pytest.raises(mebp.Error) as refused:
        make(tmp_path, train="lora")
    assert "--optimizer qgalore: is not for --train lora; give --train full, or another optimizer" in str(refused.value)
