# SPDX-License-Identifier: Apache-2.0
"""mebp.train on lists of samples: the bits, the states and the refusals of a file with the same lines."""

import json

import pytest

import mebp

LAMPS = [{"prompt": f"{number}:", "completion": " lit"} for number in range(12)]
TALKS = [
    {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "Yes."}]} for n in range(4)
]
PAIRS = [{"prompt": f"{number}:", "chosen": " lit", "rejected": " out"} for number in range(4)]
TEXTS = ["The lamp is lit half an hour before sunset.", "The wick is trimmed every four hours."]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))


def trained(run) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in run.session.trainables().items()}


@pytest.mark.parametrize(
    ("samples", "options"),
    [(LAMPS, {}), (TALKS, {}), (PAIRS, {"objective": "dpo"}), (TEXTS, {}), ([{"q": "1:", "a": " lit"}], {
        "columns": "prompt=q,completion=a"})],
)  # fmt: skip
def test_the_bits_are_those_of_a_file(bundle, tmp_path, samples, options):
    file = tmp_path / "file.jsonl"
    lines = [sample if isinstance(sample, dict) else {"text": sample} for sample in samples]
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    told = {"steps": 2, "lr": 1e-2, "eval_every": 1, "progress": False, **options}
    runs = [mebp.train(bundle, data, eval=data, test=data, **told) for data in (samples, file)]
    losses = [[entry.loss for entry in run.records] for run in runs]
    assert losses[0] == losses[1] and runs[0].test_loss == runs[1].test_loss
    assert [each.eval_loss for each in runs[0].evaluations] == [each.eval_loss for each in runs[1].evaluations]
    assert trained(runs[0]) == trained(runs[1])


def test_a_run_goes_on_by_the_content(bundle, tmp_path, capsys):
    file = tmp_path / "file.jsonl"
    file.write_text("".join(json.dumps(sample) + "\n" for sample in LAMPS))
    options = {"lr": 1e-2, "state": tmp_path / "state", "progress": False}
    mebp.train(bundle, LAMPS, steps=2, **options)
    mebp.train(bundle, [dict(sample) for sample in LAMPS], steps=3, resume=True, **options)
    run = mebp.train(bundle, file, steps=4, resume=True, **options)
    assert [record.step for record in run.records] == [4]
    with pytest.raises(mebp.Error, match="data"):
        mebp.train(bundle, LAMPS[:-1], steps=5, resume=True, **options)
    whole = mebp.train(bundle, LAMPS, steps=4, lr=1e-2)
    assert whole.records[-1].loss == run.records[-1].loss
    assert "; data: 60 tokens to predict" in capsys.readouterr().out


def test_completions_that_others_wrote(bundle, tmp_path):
    written = [
        {"prompt": f"{n}:", "completions": [{"text": " lit", "reward": 1.0}, {"text": " out", "reward": 0.0}]}
        for n in range(2)
    ]
    options = {"objective": "grpo", "group": 2, "steps": 1, "lr": 1e-2, "progress": False, "state": tmp_path / "state"}
    mebp.train(bundle, written, rollouts=written, **options)
    run = mebp.train(bundle, written, rollouts=written, resume=True, **{**options, "steps": 2})
    assert [record.step for record in run.records] == [2]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"data": [*LAMPS[:2], {"prompt": "2:", "completion": 3}]},
         'sample 3 of data: "completion" is a number; give a string'),
        ({"data": [*LAMPS[:2], {"text": "lit"}]},
         'sample 3 of data: has "text" where sample 1 of data has "prompt" and "completion"; use one form for all '
         "samples"),
        ({"data": LAMPS, "eval": [{"prompt": "x"}]}, 'sample 1 of eval: has no "completion"; give "text"'),
        ({"data": LAMPS, "ask": [{"question": "x"}]},
         'sample 1 of ask: has neither "prompt" nor "messages"; give one of them'),
        ({"data": [LAMPS, "none.jsonl"]}, "none.jsonl: cannot be read (No such file or directory); check the path"),
        ({"data": [""]}, "data: has too little text; training needs at least two tokens"),
    ],
)  # fmt: skip
def test_refusals_name_the_sample(bundle, given, line):
    with pytest.raises(mebp.Error) as caught:
        mebp.train(bundle, steps=1, progress=False, **given)
    assert str(caught.value).startswith(line)
