# SPDX-License-Identifier: Apache-2.0
"""lm-evaluation-harness asks a bundle and, by its own `hf` model, transformers with the same weights in f32."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mebp
from support import models
from support.judges import FOLDER, judge, reachable
from support.pipeline import make_bundle
from support.textmodel import make_tokenizer

ROOT = Path(__file__).resolve().parents[2]
TASKS = ["brindle_rock_choices", "brindle_rock_answers"]
LEARNED = 3  # of the questions
CLOSE = 1e-4


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with a model in f32, a bundle of it, and an adapter that has learned the first answers by heart."""
    folder = tmp_path_factory.mktemp("lm_eval")
    # Beside an adapter the harness's own model cuts a vocabulary to what the tokenizer has.
    models.save(models.build("llama", num_hidden_layers=1, vocab_size=259, eos_token_id=256), folder / "source")
    make_tokenizer(folder / "source")
    bundle = make_bundle(
        folder / "source", folder, seq_len=128, batch=2, weights="f32", lora=mebp.LoRA(rank=32, alpha=64)
    )
    questions = (ROOT / "examples" / "brindle_rock_questions.jsonl").read_text(encoding="utf-8").splitlines()
    data = folder / "data.jsonl"
    with data.open("w") as file:
        for line in questions[:LEARNED]:
            asked, answered = (turn["content"] for turn in json.loads(line)["messages"])
            file.write(json.dumps({"prompt": asked, "completion": answered}) + "\n")
    mebp.train(bundle, data, epochs=200, lr=5e-3, progress=False, adapter_out=folder / "adapter")
    return folder


@pytest.fixture
def harness(monkeypatch, tmp_path):
    """lm_eval, which finds the tasks of examples/ and asks no hub."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(ROOT)
    judge("lm_eval.evaluator")
    with reachable():
        yield judge("lm_eval")


def evaluate(harness, model: object, **given: object) -> dict:
    manager = judge("lm_eval.tasks").TaskManager(include_path="examples/lm_eval", include_defaults=False)
    return harness.simple_evaluate(
        model, tasks=TASKS, task_manager=manager, limit=8, bootstrap_iters=0, log_samples=True, **given
    )


def scores(found: dict) -> dict:
    return {
        task: {name: value for name, value in found["results"][task].items() if "," in name and "stderr" not in name}
        for task in TASKS
    }


def answers(found: dict, task: str) -> list:
    """Of each sample, what the model has answered to each request."""
    return [sample["filtered_resps"] for sample in sorted(found["samples"][task], key=lambda each: each["doc_id"])]


@pytest.mark.parametrize("adapter", [None, "adapter"])
def test_scores_are_those_of_its_own_model(harness, trained, adapter):
    from mebp.lm_eval import MebpLM

    folder = None if adapter is None else trained / adapter
    ours = evaluate(harness, MebpLM(trained / "model.mebp", folder))
    theirs = {"pretrained": str(trained / "source"), "dtype": "float32"} | ({"peft": str(folder)} if folder else {})
    found = evaluate(harness, "hf", model_args=theirs, device="cpu", batch_size=1)
    assert scores(ours) == scores(found)
    assert answers(ours, TASKS[1]) == answers(found, TASKS[1])
    likelihoods = [np.array(answers(each, TASKS[0])) for each in (ours, found)]
    assert likelihoods[0].shape == (8, 4, 2)
    np.testing.assert_allclose(*(each[..., 0].astype(float) for each in likelihoods), rtol=CLOSE)
    assert (likelihoods[0][..., 1] == likelihoods[1][..., 1]).all()
    if adapter:
        assert scores(ours)[TASKS[1]] == {"exact_match,none": LEARNED / 8}


def requests(harness, kind: str, *arguments: tuple) -> list:
    instance = judge("lm_eval.api.instance").Instance
    return [instance(kind, {}, each, index) for index, each in enumerate(arguments)]


def test_requests_one_by_one(harness, trained):
    """What no task of ours asks: whole texts, contexts without a word or too long, draws, and likely tokens."""
    from mebp.lm_eval import MebpLM

    ours = MebpLM(trained / "model.mebp", trained / "adapter")
    hf = judge("lm_eval.models.huggingface").HFLM
    theirs = hf(str(trained / "source"), peft=str(trained / "adapter"), dtype="float32", device="cpu", batch_size=1,
                max_length=ours.max_length)  # fmt: skip
    long = "The lamp is lit half an hour before sunset. " * 8
    texts = requests(harness, "loglikelihood_rolling", ("",), ("A lamp.",), (long,))
    np.testing.assert_allclose(ours.loglikelihood_rolling(texts), theirs.loglikelihood_rolling(texts), rtol=CLOSE)

    asked = json.loads((trained / "data.jsonl").read_text().splitlines()[0])
    pairs = requests(
        harness,
        "loglikelihood",
        ("", "A lamp"),
        ("A lamp ", "is lit"),
        (long, "Then"),
        (asked["prompt"], asked["completion"]),
        (asked["prompt"], asked["completion"][:-1] + "!"),
    )
    found, expected = ours.loglikelihood(pairs), theirs.loglikelihood(pairs)
    np.testing.assert_allclose([each for each, _ in found], [each for each, _ in expected], rtol=CLOSE, atol=CLOSE)
    assert [likely for _, likely in found] == [likely for _, likely in expected] == [False, False, False, True, False]
    from mebp.lm_eval import model

    model._MOST_LOGITS, most = 1, model._MOST_LOGITS  # in pieces, as with a large vocabulary
    try:
        pieces = ours.loglikelihood(pairs)
    finally:
        model._MOST_LOGITS = most
    np.testing.assert_allclose([each for each, _ in pieces], [each for each, _ in found], rtol=CLOSE)
    assert [likely for _, likely in pieces] == [likely for _, likely in found]

    written = requests(
        harness,
        "generate_until",
        (asked["prompt"], {"until": ["ri", "<|im_end|>"], "max_gen_toks": 30}),
        (long, {"until": [], "max_gen_toks": 5}),
        ("A lamp", {"until": "\n", "max_new_tokens": 9, "do_sample": False}),
    )
    assert ours.generate_until(written) == theirs.generate_until(written)
    drawn = requests(
        harness, "generate_until", *[("A", {"temperature": 2.0, "do_sample": True, "max_gen_toks": 9})] * 2
    )
    assert ours.generate_until(drawn) == ours.generate_until(drawn)


def test_chats_are_written_by_the_template(harness, trained):
    from mebp.lm_eval import MebpLM

    ours = MebpLM(trained / "model.mebp")
    theirs = judge("lm_eval.models.huggingface").HFLM(str(trained / "source"), dtype="float32", device="cpu")
    turns = [{"role": "user", "content": "Who?"}]
    begun = [*turns, {"role": "assistant", "content": "It is"}]
    for chat, prompts in ((turns, True), (begun, False)):
        assert ours.apply_chat_template(chat, prompts) == theirs.apply_chat_template(chat, prompts)
    assert ours.chat_template(True) == theirs.chat_template(True)
    assert ours.eot_token_id == theirs.eot_token_id and ours.prefix_token_id == theirs.prefix_token_id


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"max_gen_toks": 200},
            "a task asks for 200 new tokens, and the bundle takes 128 with the prompt; set max_gen",
        ),
        ({"num_beams": 3}, "generation_kwargs: num_beams is not read; leave it out, or choose max_gen_toks"),
    ],
)
def test_refusals(harness, trained, options, line):
    from mebp.lm_eval import MebpLM

    with pytest.raises(mebp.Error, match=line):
        MebpLM(trained / "model.mebp").generate_until(requests(harness, "generate_until", ("A", options)))
    long = requests(harness, "loglikelihood", ("A", "b" * 128))
    with pytest.raises(mebp.Error, match="a continuation has 128 tokens, and the bundle takes 127 with what is before"):
        MebpLM(trained / "model.mebp").loglikelihood(long)


def test_the_command_line_has_the_model(harness, trained, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(FOLDER)])}
    command = [sys.executable, "-m", "mebp.lm_eval", "run", "--model", "mebp", "--include_path", "examples/lm_eval",
               "--tasks", TASKS[0], "--limit", "2", "--model_args"]  # fmt: skip
    run = subprocess.run([*command, f"bundle={trained / 'model.mebp'},adapter={trained / 'adapter'}"],
                         env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert run.returncode == 0 and "|brindle_rock_choices|" in run.stdout, run
    run = subprocess.run([*command, "bundle=none.mebp"], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and run.stderr.splitlines()[-1].startswith("mebp: "), run


def test_without_the_harness_the_extra_is_named():
    command = [sys.executable, "-m", "mebp.lm_eval", "run"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1, run
    assert "install it with: pip install 'mebp[lm-eval]'" in run.stderr
