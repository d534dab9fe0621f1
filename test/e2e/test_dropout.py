# SPDX-License-Identifier: Apache-2.0
"""LoRA dropout: PEFT's gradients under the same masks, in steps alone, the same for any plan and after a resumption."""

import json
import subprocess

import numpy as np
import pytest
import torch

import mebp
from mebp.compiler import run_mebpc
from mebp.inspect import inspect
from mebp.tools import find_tool
from mebp.verification.comparison import Comparison, Errors, Gradients, relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import mebp as run_mebp
from support.commands import refusal_in_process
from support.dropout import put_masks
from support.exports import export
from support.pipeline import check, make_bundle, reference_for
from support.textmodel import make_text_bundle

P, BATCH, LENGTH = 0.3, 2, 21


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(request):
    return models.build(request.param)


@pytest.fixture(scope="module")
def llama():
    return models.build("llama")


@pytest.fixture(scope="module")
def bundle(llama, tmp_path_factory):
    return with_dropout(llama, tmp_path_factory.mktemp("dropout"))


@pytest.fixture(scope="module")
def onnx(llama, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    export(llama, path, seq_len=24, batch=2)
    return path


def with_dropout(model, folder, p=P, **options):
    return make_bundle(model, folder, seq_len=LENGTH, batch=BATCH, lora=mebp.LoRA(dropout=p), seed=5, **options)


def opened(bundle, **options):
    session = mebp.Session(bundle, **{"optimizer": "sgd", "lr": 0.0, "return_gradients": True, **options})
    randomise_adapter(session)
    return session


def a_batch(model, batch=BATCH, seed=0):
    ids = models.token_ids(model, batch, LENGTH, seed).numpy()
    labels = ids.copy()
    labels[0, :7] = -100
    return ids, labels


def step(session, *batch):
    """The loss and gradients of a step that changes nothing but the number of steps."""
    return Gradients(session.step(*batch).loss, session.gradients())


def assert_same(found, expected, tolerance=2e-5):
    assert found.loss == pytest.approx(expected.loss, rel=1e-6)
    for key, values in expected.gradients.items():
        assert relative_error(found.gradients[key], values) < tolerance, key


def mebpc(*arguments):
    return subprocess.run([find_tool("mebpc"), *map(str, arguments)], capture_output=True, text=True, check=False)


def differ(one, other):
    """One bit of a mask changes a gradient by a percent."""
    return all(relative_error(one.gradients[key], values) > 0.01 for key, values in other.gradients.items())


@pytest.mark.parametrize("options", [{}, {"chunk_size": 8}, {"precision": "bf16"}], ids=str)
def test_gradients_are_those_of_peft_under_the_same_masks(model, tmp_path, show, options):
    bundle = with_dropout(model, tmp_path, **options)
    session = opened(bundle)
    ids, labels = a_batch(model)
    narrow = options.get("precision") == "bf16"
    for number in range(2):
        found = step(session, ids, labels)
        exact, torchs = (reference_for(bundle, session, model, dtype) for dtype in (torch.float64, torch.float32))
        if narrow:
            torchs = reference_for(bundle, session, model, torch.bfloat16, adapter_dtype=torch.float32)
        for reference in (exact, torchs):
            put_masks(reference, bundle, BATCH, LENGTH, number)
        exact, torchs = (Gradients(*reference.loss_and_gradients(ids, labels)) for reference in (exact, torchs))
        result = Comparison(Errors.of(found, exact), Errors.of(torchs, exact), options.get("precision", "f32"))
        show(f"step {number}, {options}: {result}")
        check(result)


def test_the_gradient_is_the_slope_of_the_masked_loss(bundle, llama):
    batch = a_batch(llama)
    at = opened(bundle)
    begin, found = at.trainables(), step(at, *batch)
    generator = np.random.default_rng(1)
    direction = {key: generator.normal(size=values.shape).astype(np.float32) for key, values in begin.items()}
    slope = sum(float((found.gradients[key] * values).sum()) for key, values in direction.items())

    def loss(distance):
        session = opened(bundle)
        session.set_trainables({key: values + distance * direction[key] for key, values in begin.items()})
        return session.step(*batch).loss

    distance = 1e-3
    assert (loss(distance) - loss(-distance)) / (2 * distance) == pytest.approx(slope, rel=5e-3)


def test_no_plan_changes_a_mask(bundle, llama, tmp_path):
    batch = a_batch(llama)
    expected = step(opened(bundle), *batch)
    for name, options in {
        "chunks": {"chunk_size": 5},
        "spacing": {"checkpoint_spacing": 2},
        "spill": {"spill": "checkpoints"},
        "budget": {"memory_budget": "200MB"},
    }.items():
        (tmp_path / name).mkdir()
        made = with_dropout(llama, tmp_path / name, **options)
        assert_same(step(opened(made), *batch), expected)
    assert_same(step(opened(bundle, threads=2), *batch), expected, 1e-7)
    assert_same(step(opened(bundle, reference_kernels=True), *batch), expected)


def test_gradients_that_are_computed_twice_have_one_mask(bundle, llama):
    once, twice = (
        opened(bundle, lr=0.1, clip=1e-3, return_gradients=False, clip_recompute=recomputes)
        for recomputes in (False, True)
    )
    losses = [session.step(*a_batch(llama)).loss for session in (once, twice)]
    assert losses[0] == losses[1]
    expected = once.trainables()
    assert all(np.array_equal(values, expected[key]) for key, values in twice.trainables().items())


def test_nor_does_a_cut_of_the_step_into_batches(bundle, llama):
    ids, labels = a_batch(llama)
    expected = step(opened(bundle), ids, labels)
    apart = step(opened(bundle, accumulate=True), [ids[:1], ids[1:]], [labels[:1], labels[1:]])
    assert_same(apart, expected)
    # Rows that are shorter have the masks of their positions.
    short = labels.copy()
    short[:, 13:] = -100
    assert_same(step(opened(bundle), ids[:, :13], labels[:, :13]), step(opened(bundle), ids, short))


def test_steps_and_seeds_have_masks_of_their_own(bundle, llama, tmp_path):
    batch, session = a_batch(llama), opened(bundle)
    first, second = (step(session, *batch) for _ in range(2))
    assert differ(first, second)
    other = make_bundle(llama, tmp_path, seq_len=LENGTH, batch=BATCH, lora=mebp.LoRA(dropout=P), seed=6)
    seeded = opened(other)
    seeded.set_trainables(session.trainables())
    assert differ(step(seeded, *batch), first)


def test_only_steps_have_it(bundle, llama, tmp_path):
    without = make_bundle(llama, tmp_path, seq_len=LENGTH, batch=BATCH, seed=5)
    ids, labels = a_batch(llama)
    plain, session = opened(without), opened(bundle)
    assert differ(step(session, ids, labels), step(plain, ids, labels))
    assert session.loss(ids, labels) == plain.loss(ids, labels)
    assert np.array_equal(session.logits(ids), plain.logits(ids))
    assert np.array_equal(session.logprobs(ids), plain.logprobs(ids))
    assert np.array_equal(
        session.generate(ids[:1, :5], max_new_tokens=8), plain.generate(ids[:1, :5], max_new_tokens=8)
    )
    assert_same(Gradients(*session.loss_and_gradients(ids, labels)), Gradients(*plain.loss_and_gradients(ids, labels)))
    summed, expected = (mebp.Session(one, optimizer="sgd", accumulate=True) for one in (bundle, without))
    for each in (summed, expected):
        randomise_adapter(each)
        with each.sequence(ids) as sequence:
            sequence.backward(np.ones_like(sequence.logprobs))
    assert_same(Gradients(0, summed.gradients()), Gradients(0, expected.gradients()))


def test_a_resumed_run_goes_on_with_the_same_bits(bundle, llama, tmp_path):
    batches = [a_batch(llama, seed=seed) for seed in range(4)]
    whole, begun = (opened(bundle, optimizer="adamw", lr=1e-3) for _ in range(2))
    losses = [whole.step(*batch).loss for batch in batches]
    assert [begun.step(*batch).loss for batch in batches[:2]] == losses[:2]
    begun.loss(*batches[3])  # draws nothing
    begun.save_state(tmp_path / "state")
    resumed = mebp.Session(bundle, optimizer="adamw", lr=1e-3, return_gradients=True)
    resumed.load_state(tmp_path / "state")
    assert [resumed.step(*batch).loss for batch in batches[2:]] == losses[2:]
    expected = whole.trainables()
    assert all(np.array_equal(values, expected[key]) for key, values in resumed.trainables().items())


def test_zero_compiles_to_what_there_is_without_it(onnx, tmp_path):
    for name, options in {"zero": {"lora_dropout": 0.0}, "none": {}}.items():
        run_mebpc(onnx, tmp_path / name, options)
    for file in ("program.pb", "manifest.json", "weights.bin"):
        assert (tmp_path / "zero" / file).read_bytes() == (tmp_path / "none" / file).read_bytes(), file


def test_peft_reads_it_in_the_adapters_configuration(bundle, tmp_path):
    session = opened(bundle)
    session.save_adapter(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["lora_dropout"] == P
    assert inspect(bundle)["manifest"]["options"]["lora"]["dropout"] == P
    assert f"alpha 16, dropout {P}, on" in run_mebp("inspect", bundle).stdout


def test_it_verifies(bundle):
    run = run_mebp("verify", bundle)
    assert run.returncode == 0, run.stderr


def test_mlx_has_the_same_masks(bundle, llama):
    batch = a_batch(llama)
    assert_same(step(opened(bundle, device="mlx-cpu"), *batch), step(opened(bundle), *batch))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--lora-dropout", "1"], "--lora-dropout 1.000000: give a number from 0 to below 1"),
        (["--lora-dropout=-0.1"], "--lora-dropout -0.100000: give a number from 0 to below 1"),
        (["--lora-dropout", "nan"], "--lora-dropout nan: give a number from 0 to below 1"),
        (["--train", "full"], "--lora-dropout: is not for --train full; leave it out, or give --train lora"),
        (
            ["--optimizer", "mezo"],
            "--lora-dropout: mezo compares losses, which a mask would change; leave it out, or give another optimizer",
        ),
        (
            ["--objective", "dpo"],
            "--lora-dropout: is not for --objective dpo, which compares probabilities; leave it out",
        ),
        (
            ["--adapter", "private-lora"],
            "--lora-dropout: is not for --adapter private-lora; give --rank-down and --rank-up",
        ),
    ],
)
def test_what_cannot_have_it_refuses_it(onnx, tmp_path, options, line):
    given = options if "--lora-dropout" in options[0] else ["--lora-dropout", "0.1", *options]
    run = mebpc(onnx, "-o", tmp_path / "out.mebp", *given)
    assert (run.returncode, run.stderr) == (2, f"mebpc: {line}\n")
    assert not (tmp_path / "out.mebp").exists()


def test_mezo_refuses_a_bundle_that_has_it(bundle):
    with pytest.raises(mebp.Error) as refused:
        mebp.Session(bundle, optimizer="mezo")
    assert str(refused.value) == (
        "the bundle has LoRA dropout, which mezo does not take; choose another optimizer, or compile it without "
        "--lora-dropout"
    )
    mebp.Session(bundle, optimizer="mezo", forward_only=True)


SAMPLES = [{"prompt": f"Lamp {number}? ", "completion": "It is lit."} for number in range(8)]
PAIRS = [{"prompt": "Is it lit? ", "chosen": "Yes.", "rejected": "No."}] * 4


@pytest.fixture(scope="module")
def worded(tmp_path_factory):
    """A bundle with dropout and a tokenizer."""
    return make_text_bundle(tmp_path_factory.mktemp("worded"), seq_len=64, batch=2, lora=mebp.LoRA(dropout=P))


def write(path, samples):
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture(scope="module")
def still(worded, tmp_path_factory):
    """Options of a run that moves nothing, with an adapter that does something."""
    folder = tmp_path_factory.mktemp("still") / "adapter"
    session = mebp.Session(worded)
    randomise_adapter(session)
    session.save_adapter(folder)
    return {"adapter": folder, "lr": 1e-30, "warmup": 0, "packing": False, "progress": False}


def test_a_run_evaluates_without_it(worded, still, tmp_path):
    data = write(tmp_path / "data.jsonl", SAMPLES[:2])
    run = mebp.train(worded, data=data, eval=data, eval_every=1, steps=3, **still)
    (measured,) = {evaluation.eval_loss for evaluation in run.evaluations}
    losses = {record.loss for record in run.records}
    assert len(losses) == 3 and measured not in losses


def test_sources_have_losses_without_it(worded, still, tmp_path):
    """No source's is what is left of the step's own loss, which has dropout."""
    paths = [write(tmp_path / f"{name}.jsonl", SAMPLES[:1] * 4) for name in ("one", "two")]
    run = mebp.train(worded, data=[str(path) for path in paths], steps=2, accumulate=4, **still)
    for record in run.records:
        one, two = (record.metrics[f"loss/{path.name}"] for path in paths)
        assert one == pytest.approx(two, rel=1e-6) and abs(record.loss - one) > 1e-4 * one


def test_one_command_takes_it_from_a_file(worded, tmp_path):
    data, config = write(tmp_path / "data.jsonl", SAMPLES), tmp_path / "run.yaml"
    config.write_text("lora_dropout: 0.25\nsteps: 1\nseq_len: 32\n")
    run = run_mebp("train", worded.parent / "source", "--data", data, "--config", config)
    assert run.returncode == 0, run.stderr
    assert "alpha 16, dropout 0.25, on" in run.stdout


def test_an_objective_that_compares_says_that_it_has_none(worded, tmp_path):
    pairs = write(tmp_path / "pairs.jsonl", PAIRS)
    run = run_mebp(
        "train", worded, "--data", pairs, "--objective", "dpo", "--steps", 1, "--adapter-out", tmp_path / "a"
    )
    assert run.returncode == 0, run.stderr
    assert f"--objective dpo compares probabilities, without the bundle's LoRA dropout of {P}" in run.stdout


def test_weighted_turns_refuse_it(worded, tmp_path, capsys):
    turns = [{"role": "user", "content": "Lit?"}, {"role": "assistant", "content": "Yes.", "weight": 2}]
    data = write(tmp_path / "turns.jsonl", [{"messages": turns}])
    line = refusal_in_process(capsys, "train", worded, "--data", data, "--turn-weights", "--steps", 1)
    assert line == (
        f"mebp: --turn-weights has no dropout, and {worded} was compiled for some; leave --turn-weights out, or "
        "compile without --lora-dropout\n"
    )
