# SPDX-License-Identifier: Apache-2.0
"""Data that is larger than memory should hold, and several files: from the command line. `make test` takes 60 MB,
`make soak` (MEBP_SOAK) a gigabyte, of which it also asserts how long it takes."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mebp
from mebp.data import Dataset, load_dataset
from mebp.data.reading import read_samples
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate
from mebp.training.loop import TrainingRun
from support.commands import TIMEOUT, command_line, has_lines, refusal_in_process, running
from support.soak import SOAK

BYTES = 1_000_000_000 if SOAK else 60_000_000
PART = 500_000
MOST_MEMORY = 200e6  # of Python, tokenizer and data
WORDS = Path(__file__).resolve().parents[2] / "docs"


def write_lines(path: Path, size: int, length: int = 40) -> Path:
    """So many bytes of JSON lines, of prose: prompts of `length` words, and how they go on."""
    chance = random.Random(39)
    words = " ".join(page.read_text(encoding="utf-8") for page in sorted(WORDS.glob("*.md"))).split(" ")
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            start = chance.randrange(len(words) - 300)
            prompt = " ".join(words[start : start + length])
            completion = " ".join(words[start + length : start + length + chance.randint(20, 200)])
            written += file.write(json.dumps({"prompt": prompt, "completion": completion}) + "\n")
    return path


def peak_of(process: subprocess.Popen) -> float:
    """The most anonymous memory that a process has while it runs, in bytes."""
    peak = 0
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        lines = status.read_text().splitlines()
        peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))])
        time.sleep(0.01)
    return peak * 1024.0


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def losses(log: Path) -> list[tuple[int, float]]:
    return [(entry["step"], entry["loss"]) for entry in map(json.loads, log.read_text().splitlines())]


# What a run of a bundle with this tokenizer does before its first step.
LOADING = """
import sys, time
from pathlib import Path
import mebp.training.loop
from mebp.data import load_dataset
from mebp.data.sharing import Sharing
from mebp.tokenizer import Tokenizer

began = time.monotonic()
data = load_dataset(sys.argv[1], Tokenizer.of_model(Path(sys.argv[2])), 512, Sharing())
data.step_batches(0, 4, 1, seed=0)
print(time.monotonic() - began, data.tokens, data.digest)
"""


def test_a_large_file_takes_little_memory_and_time(cache, tmp_path, show):
    model = unpack("packaged:smollm2")
    data = write_lines(tmp_path / "data.jsonl", BYTES)
    found, kept = [], []
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", LOADING, data, model], stdout=subprocess.PIPE, text=True)
        peak = peak_of(process)
        seconds, *same = process.communicate(timeout=20 * TIMEOUT)[0].split()
        assert process.returncode == 0 and peak < MOST_MEMORY
        found.append((float(seconds), peak / 1e6, same))
        kept.append({file: file.stat().st_mtime_ns for file in cache.rglob("*") if file.is_file()})
    (first, most, same), (second, _, again) = found
    assert same == again and kept[0] == kept[1]  # the second start has made nothing
    # As it was before, at the least: a sample after the other.
    tokenizer, part = Tokenizer.of_model(model), read_samples(write_lines(tmp_path / "part.jsonl", PART))
    began = time.monotonic()
    for sample in part:
        tokenizer.encode_document(sample.prompt), tokenizer.encode_document(sample.prompt + sample.completion)
    times = (time.monotonic() - began) * BYTES / PART / first
    assert not SOAK or (second < 5 and times > 4)  # other tests take time, too
    show(
        f"{BYTES / 1e6:,.0f} MB of JSON lines: tokens in {first:.0f} s, {times:.1f} times as fast as one by one, and "
        f"{most:.0f} MB of Python; {second:.1f} s at the second start"
    )


def test_a_run_that_is_killed_while_it_makes_tokens_and_while_it_trains_goes_on(bundle, cache, tmp_path):
    data = write_lines(tmp_path / "data.jsonl", 5_000_000, length=1)
    common = ["train", bundle, "--data", data, "--steps", 30, "--save-every", 1, "--lr", "1e-2", "--threads", 1]
    tokens = cache / "tokens"

    def half_made(_: int) -> bool:
        return any(file.stat().st_size for file in tokens.glob(".writing-*/folder/ids"))

    killed = [*common, "--state", tmp_path / "state", "--log", tmp_path / "killed.jsonl"]
    with running(*killed, until=half_made):
        pass
    assert not [entry for entry in tokens.iterdir() if not entry.name.startswith(".")]
    with running(*killed, until=has_lines(tmp_path / "killed.jsonl", 3)):
        pass
    assert (tmp_path / "state" / "state.bin").exists() and len(losses(tmp_path / "killed.jsonl")) < 30
    whole = [*common, "--state", tmp_path / "whole", "--log", tmp_path / "whole.jsonl"]
    for more in ([*killed, "--resume"], whole):
        done = subprocess.run(command_line(*more), capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "killed.jsonl") == losses(tmp_path / "whole.jsonl")
    states = [(tmp_path / name / "state.bin").read_bytes() for name in ("state", "whole")]
    assert states[0] == states[1]
    assert len([entry for entry in tokens.iterdir() if not entry.name.startswith(".")]) == 1


@pytest.fixture
def two(tmp_path) -> tuple[Path, Path]:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text("".join(json.dumps({"prompt": f"{n}", "completion": "abc" * (n % 5 + 1)}) + "\n" for n in range(24)))
    other.write_text("".join(json.dumps({"prompt": "?", "completion": f"{n}!"}) + "\n" for n in range(5)))
    return one, other


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_log_has_the_loss_of_each_source(bundle, two, tmp_path, accumulate):
    one, other = two
    log, seen = tmp_path / "run.jsonl", []
    run = mebp.train(bundle, [one, f"{other}:0.25"], epochs=1, lr=0.0, accumulate=accumulate, log=log, progress=False,
                     callback=seen.append)  # fmt: skip
    tokenizer, entries = Tokenizer(bundle), [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(len(record.metrics) for record in seen) > len(seen)  # steps with rows of both
    # With a rate of 0 each row's loss is what it was, so an epoch's means are known.
    for path, times in ((one, 1), (other, 8 / 5)):
        data: Dataset = load_dataset(path, tokenizer, run.session.max_sequence)
        name = f"loss/{path.name}"
        assert all((name in entry) == (name in record.metrics) for entry, record in zip(entries, seen, strict=True))
        if times == 1:
            expected = evaluate(run.session, data)
            weights, found = _weighted(run, seen, name, [one, f"{other}:0.25"], accumulate)
            assert sum(weights) == data.counted
            assert found == pytest.approx(expected, rel=1e-5)
    for record in seen:
        assert min(record.metrics.values()) <= record.loss + 1e-6 <= max(record.metrics.values()) + 2e-6


def _weighted(run: TrainingRun, seen: list, name: str, given: list, accumulate: int) -> tuple[list[int], float]:
    """Labels of a source in each step, and its mean loss over all of them."""
    from mebp.data.loading import load_mixed
    from mebp.data.sources import read_sources

    data = load_mixed(read_sources(given), Tokenizer(run.session.path), run.session.max_sequence)
    weights = []
    for step in range(len(seen)):
        rows = data.rows_of_step(step, run.session.max_batch * accumulate, seed=0)
        sources = data.mix.sources(rows)
        index = [f"loss/{each}" for each in data.mix.names].index(name)
        weights.append(
            sum(data.rows[row].counted for row, source in zip(rows, sources, strict=True) if source == index)
        )
    total = sum(weight * record.metrics.get(name, 0.0) for weight, record in zip(weights, seen, strict=True))
    return weights, total / sum(weights)


def test_a_mix_is_resumed_as_it_was_and_no_other(bundle, two, tmp_path, capsys):
    one, other = two
    options = {"steps": 9, "lr": 1e-2, "accumulate": 2, "threads": 1, "progress": False}
    data = [one, f"{other}:0.25"]
    whole = mebp.train(bundle, data, state=tmp_path / "whole", **options)
    mebp.train(bundle, data, state=tmp_path / "state", **{**options, "steps": 4})
    capsys.readouterr()
    told = refusal_in_process(capsys, "train", bundle, "--data", one, "--data", f"{other}:0.5", "--steps", 9,
                              "--lr", "1e-2", "--accumulate", 2, "--state", tmp_path / "state", "--resume")  # fmt: skip
    assert f"{tmp_path / 'state'}: was made with data " in told
    rest = mebp.train(bundle, data, state=tmp_path / "state", resume=True, **options)
    assert (tmp_path / "whole" / "state.bin").read_bytes() == (tmp_path / "state" / "state.bin").read_bytes()
    assert [record.loss for record in rest.records] == [record.loss for record in whole.records[4:]]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--data", "{other}:0"], "--data {other}:0: the share is 0; give a number above 0 and below 1, such as "
         "{other}:0.2"),
        (["--data", "{folder}/none.jsonl"], "{folder}/none.jsonl: cannot be read (No such file or directory); check "
         "the path"),
        (["--lr", "1", "--lr", "2"], "--lr is given twice; see mebp train --help"),
        (["--packing", "--no-packing"], "--packing and --no-packing are both given; see mebp train --help"),
        (["--objective", "dpo", "--data", "{other}:0.5"], "--data {other}:0.5: --objective dpo takes every sample once "
         "an epoch; leave the share out"),
    ],
)  # fmt: skip
def test_what_is_refused(bundle, two, tmp_path, capsys, more, message):
    places = {"other": two[1], "folder": tmp_path}
    more = [word.format(**places) for word in more]
    told = refusal_in_process(capsys, "train", bundle, "--data", two[0], *more, "--steps", 1)
    assert told == f"mebp: {message.format(**places)}\n"
