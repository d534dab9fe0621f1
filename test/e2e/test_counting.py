# SPDX-License-Identifier: Apache-2.0
"""`mebp train` with --loss-on, --turn-weights and --empty-thoughts: what is learned, resumed, measured and refused."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp import Session
from mebp.cli import main
from mebp.data import Row, load_dataset
from mebp.data.counting import Counting
from mebp.data.sources import Source
from mebp.distributed.sequence_steps import SequenceSteps
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate
from mebp.training.objectives.weighted import weighted_step
from support.commands import mebp as command
from support.commands import refusal_in_process
from support.textmodel import make_text_bundle

LENGTH = 128


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return make_text_bundle(tmp_path_factory.mktemp("counting"), seq_len=LENGTH, precision="f32")


def conversation(*weights: float | None) -> dict:
    answers = [{"role": "assistant", "content": f"It is {index}."} for index in range(len(weights))]
    turns = []
    for answer, weight in zip(answers, weights, strict=True):
        turns += [{"role": "user", "content": "What?"}, answer | ({} if weight is None else {"weight": weight})]
    return {"messages": turns}


def write(path: Path, *samples: dict) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def rows_of(bundle: Path, path: Path, counting: Counting) -> list[Row]:
    return list(load_dataset(Source.of(path, counting=counting), Tokenizer(bundle), LENGTH).rows)


def adapters(bundle: Path) -> Session:
    return Session(bundle, accumulate=True, optimizer="sgd", lr=0.5)


def test_a_weight_is_how_often_a_token_is_there(bundle, tmp_path):
    """Turns of weights 1 and 3 learn what both turns once and the second one twice more do."""
    first = write(tmp_path / "a.jsonl", conversation(1, 3))
    (row,) = rows_of(bundle, first, Counting(weighs=True))
    again = [*rows_of(bundle, write(tmp_path / "b.jsonl", conversation(1, 1)), Counting())]
    again += 2 * rows_of(bundle, write(tmp_path / "c.jsonl", conversation(0, 1)), Counting())
    weighted, repeated = adapters(bundle), adapters(bundle)
    done, sums, weights = weighted_step(weighted, SequenceSteps(None), [row.ids[None]], [row.weights[None]])
    expected = repeated.step([each.ids[None] for each in again], [each.labels[None] for each in again])
    assert done.loss == pytest.approx(expected.loss, rel=1e-6) and done.tokens == row.counted
    assert done.loss == pytest.approx(float(sums.sum() / weights.sum()), rel=1e-12)
    assert done.grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    before = adapters(bundle).trainables()
    for name, values in weighted.trainables().items():
        moved = np.abs(values - before[name]).max()
        assert np.abs(values - repeated.trainables()[name]).max() <= 1e-5 * moved + 1e-9
    assert any(np.abs(values - before[name]).max() > 1e-4 for name, values in weighted.trainables().items())


def test_weights_of_one_are_no_weights(bundle, tmp_path):
    path = write(tmp_path / "a.jsonl", conversation(None, None), conversation(None))
    with_weights = load_dataset(Source.of(path, counting=Counting(weighs=True)), Tokenizer(bundle), LENGTH)
    without = load_dataset(path, Tokenizer(bundle), LENGTH)
    session = Session(bundle)
    assert with_weights.weighted and not without.weighted
    assert evaluate(session, with_weights) == pytest.approx(evaluate(session, without), rel=1e-6)


def test_a_measured_loss_is_weighed(bundle, tmp_path):
    session, tokenizer = Session(bundle), Tokenizer(bundle)

    def measured(name: str, weights: tuple[float, float], weighs: bool) -> float:
        source = Source.of(write(tmp_path / name, conversation(*weights)), counting=Counting(weighs=weighs))
        return evaluate(session, load_dataset(source, tokenizer, LENGTH))

    first, second = (measured(f"{weights}.jsonl", weights, False) for weights in ((1, 0), (0, 1)))
    assert measured("w.jsonl", (1, 3), True) == pytest.approx((first + 3 * second) / 4, rel=1e-6)
    assert abs(first - second) > 1e-4


def test_a_run_learns_by_weights_and_resumes(bundle, tmp_path):
    data = write(tmp_path / "a.jsonl", *[conversation(0.25, 4), conversation(2, 0), conversation(None)] * 3)
    other = write(tmp_path / "b.txt.jsonl", {"text": "The lamp is lit."})
    common = {"data": [str(data), str(other)], "turn_weights": True, "lr": 0.01, "eval": data, "progress": False,
              "accumulate": 2, "optimizer": "adamw"}  # fmt: skip
    whole = mebp.train(bundle, steps=6, **common)
    names = {name for record in whole.records for name in record.metrics}
    assert names == {"loss/a.jsonl", "loss/b.txt.jsonl"}
    assert whole.evaluations[-1].eval_loss < whole.records[0].loss
    state = {"state": tmp_path / "state"}
    mebp.train(bundle, steps=3, **common, **state)
    half = mebp.train(bundle, steps=6, **common, **state, resume=True)
    for name, values in half.session.trainables().items():
        assert np.array_equal(values, whole.session.trainables()[name])
    plain = str(write(tmp_path / "plain.jsonl", conversation(None)))
    with pytest.raises(mebp.Error, match="was made with --turn-weights True, not None; resume with the same, or start"):
        mebp.train(bundle, plain, steps=7, lr=0.01, progress=False, optimizer="adamw", **state, resume=True)


@pytest.mark.parametrize("counting", [{"loss_on": "last"}, {"loss_on": "all"}, {"empty_thoughts": "learn"}])
def test_a_run_resumes_with_the_same_alone(bundle, tmp_path, counting):
    data = write(tmp_path / "a.jsonl", conversation(None, None), conversation(None))
    common = {"data": str(data), "lr": 0.01, "progress": False, "state": tmp_path / "state"}
    mebp.train(bundle, steps=1, **common, **counting)
    assert len(mebp.train(bundle, steps=2, **common, **counting, resume=True).records) == 1
    option = "--" + next(iter(counting)).replace("_", "-")
    with pytest.raises(mebp.Error, match=f"was made with {option} {next(iter(counting.values()))}, not None; resume"):
        mebp.train(bundle, steps=3, **common, resume=True)


def test_turns_are_samples_of_their_own(bundle, tmp_path):
    data = write(tmp_path / "a.jsonl", conversation(None, None, None))
    run = command("train", bundle, "--data", data, "--steps", 1, "--loss-on", "turns")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert any("27 tokens to predict in 3 rows" in line for line in lines), run.stdout
    assert f"{data}: 3 samples of 1 conversations, one for each turn of the assistant" in lines


@pytest.mark.parametrize(("on", "tokens"), [("assistant", 18), ("last", 9), ("all", 67)])
def test_what_is_measured_counts_so_too(bundle, tmp_path, on, tokens):
    data = write(tmp_path / "a.jsonl", conversation(None, None))
    run = command("eval", bundle, "--data", data, "--loss-on", on, "--json")
    assert json.loads(run.stdout)["tokens"] == tokens, run.stderr


PAIRS = {"prompt": "a", "chosen": "b", "rejected": "c"}


@pytest.mark.parametrize(
    ("sample", "options", "words"),
    [
        (PAIRS, ["--objective", "dpo", "--loss-on", "last"],
         "--loss-on says what of answers is learned, and --objective dpo learns otherwise; leave it out"),
        (PAIRS, ["--objective", "orpo", "--turn-weights"],
         "--turn-weights says what of answers is learned, and --objective orpo learns otherwise; leave it out"),
        ({"text": "a"}, ["--task", "classify", "--empty-thoughts", "learn"],
         "--empty-thoughts says what of answers is learned, and --task classify learns otherwise; leave it out"),
        ({"text": "a"}, ["--loss-on", "last"],
         "--loss-on last: DATA has no answers: it is text, all of which counts; leave --loss-on last out"),
        (conversation(2), ["--turn-weights", "--packing"],
         "--turn-weights takes each batch of samples by itself, which --packing does not; leave one of them out"),
        (conversation(2), ["--turn-weights", "--optimizer", "mezo"],
         "--turn-weights weighs gradients, and --optimizer mezo takes losses alone; choose another optimizer"),
        (conversation(2), ["--loss-on", "user"], "--loss-on is 'user'; choose assistant, last, all or turns"),
        (conversation(2), ["--empty-thoughts", "no"], "--empty-thoughts is 'no'; choose skip or learn"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(bundle, tmp_path, capsys, sample, options, words):
    data = write(tmp_path / "a.jsonl", sample)
    line = refusal_in_process(capsys, "train", bundle, "--data", data, "--steps", 1, *options)
    assert line == f"mebp: {words.replace('DATA', str(data))}\n"


PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-counts.md"


def test_the_page_of_ten_samples(tmp_path):
    """The command of docs/what-counts.md, on samples with thoughts, tools and several turns."""
    words = re.search(r"^mebp data .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)[0].split()
    data = PAGE.parents[1] / words[2]
    html = tmp_path / words[words.index("--html") + 1]
    run = command(*words[1:2], data, *words[3:-1], html)
    assert run.returncode == 0, run.stderr
    page = html.read_text()
    assert page.count("<h2>Sample ") == 10 and page.count("<pre ") == 10
    shown = [re.findall(r'<span class="(\w+)" title="[^"]*">(.*?)</span>', each, re.DOTALL)
             for each in re.findall(r"<pre .*?</pre>", page, re.DOTALL)]  # fmt: skip
    learned = [[text for kind, text in sample if kind == "counts"] for sample in shown]
    assert all(text.endswith("&lt;|im_end|&gt;") for sample in learned for text in sample)
    samples = [json.loads(line)["messages"] for line in data.read_text(encoding="utf-8").splitlines()]
    said = [[turn["content"] for turn in turns if turn["role"] == "assistant" and turn.get("weight", 1)]
            for turns in samples]  # fmt: skip
    empty = re.compile(r"<think>\s*</think>\s*")
    assert [[unescape(text) for text in sample] for sample in learned] == [
        [f"{empty.sub('', text)}<|im_end|>" for text in each] for each in said
    ]
    assert {turn["role"] for turns in samples for turn in turns} == {"system", "user", "assistant", "tool"}
    assert any(empty.search(text) for each in said for text in each) and any(len(each) > 2 for each in said)
    assert f"{html}: 10 samples; open it in a browser" in run.stdout.splitlines()


def test_a_bundle_and_an_adapter_show_their_own_rows(bundle, tmp_path, capsys):
    data = write(tmp_path / "a.jsonl", conversation(None, None))
    mebp.train(bundle, str(data), steps=1, adapter_out=tmp_path / "adapter", progress=False)
    for model in (bundle, tmp_path / "adapter"):
        assert main(["data", str(data), "--model", str(model)]) == 0
        out = capsys.readouterr().out
        assert (
            f"1 sample, 68 tokens in 1 row of up to {LENGTH} (as compiled)" in out and "{+It is 1.<|im_end|>+}" in out
        )
    line = refusal_in_process(capsys, "data", data, "--model", bundle, "--seq-len", 64)
    assert line == f"mebp: --seq-len is for a model, and {bundle} is compiled already; leave it out\n"
    line = refusal_in_process(capsys, "data", data, "--model", bundle, "--packing")
    assert line.startswith(f"mebp: --packing puts several samples into a row, which {bundle} was compiled without; ")
