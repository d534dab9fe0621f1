# SPDX-License-Identifier: Apache-2.0
"""`mebp train`: runs, kills, resumes and refusals, from outside."""

import json
import math
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mebp import Error, Session, StepResult
from mebp.tools import find_tool
from mebp.training.log import read_log as log_entries
from mebp.training.loop import train
from mebp.training.options import TrainingOptions
from support.commands import TIMEOUT, has_lines, mebp, refusal, running
from support.textmodel import TEXT, make_text_bundle


def adapter_bytes(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_a_run_leaves_adapter_log_and_picture(bundle, data, tmp_path):
    out = tmp_path / "out"
    run = mebp("train", bundle, "--data", data, "--steps", 20, "--lr", 1e-2, "--adapter-out", out / "adapter",
               "--log", out / "run.jsonl", "--plot", out / "run.png")  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "step 20/20  loss" in run.stdout and "MB planned" in run.stdout
    records = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == list(range(1, 21))
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    assert (out / "run.png").read_bytes().startswith(b"\x89PNG")
    assert {entry.name for entry in (out / "adapter").iterdir()} >= {"adapter_model.safetensors", "adapter_config.json"}
    answer = mebp("generate", bundle, "--prompt", "The wick", "--adapter", out / "adapter", "--max-new-tokens", 6)
    assert answer.returncode == 0, answer.stderr


def test_a_curve_lies_beside_the_adapter(bundle, data, tmp_path):
    adapter, state = tmp_path / "adapter", tmp_path / "state"
    common = ["train", bundle, "--data", data, "--lr", 1e-2, "--state", state]
    run = mebp(*common, "--steps", 3, "--adapter-out", adapter)
    assert f"loss curve: {adapter / 'training.png'}" in run.stdout.splitlines(), run.stderr
    assert (adapter / "training.png").read_bytes().startswith(b"\x89PNG")
    assert mebp(*common, "--steps", 5, "--adapter-out", adapter, "--resume").returncode == 0
    assert [entry.step for entry in log_entries(adapter / "training.csv")] == [1, 2, 3, 4, 5]
    table = mebp(*common, "--steps", 5, "--overwrite", "--adapter-out", tmp_path / "other", "--log", tmp_path / "r.csv")
    assert table.returncode == 0, table.stderr
    same = [(entry.step, entry.loss) for entry in log_entries(adapter / "training.csv")]
    assert [(entry.step, entry.loss) for entry in log_entries(tmp_path / "r.csv")] == same
    assert (tmp_path / "r.csv").read_text() == (tmp_path / "other" / "training.csv").read_text()
    assert mebp(*common, "--steps", 2, "--overwrite", "--adapter-out", adapter).returncode == 0
    assert [entry.step for entry in log_entries(adapter / "training.csv")] == [1, 2]


@pytest.mark.parametrize(
    "options",
    [["--optimizer", "adamw"], ["--optimizer", "sgd"], ["--accumulate", 3, "--clip", 0.1]],
    ids=["adamw", "sgd", "accumulate"],
)
def test_a_resumed_run_is_bitwise_the_same(bundle, data, tmp_path, options):
    common = ["train", bundle, "--data", data, *options, "--lr", 1e-2, "--seed", 3]
    assert mebp(*common, "--steps", 9, "--adapter-out", tmp_path / "whole").returncode == 0
    halves = [*common, "--adapter-out", tmp_path / "halves", "--state", tmp_path / "state", "--log", tmp_path / "log"]
    assert mebp(*halves, "--steps", 4).returncode == 0
    resumed = mebp(*halves, "--steps", 9, "--resume")
    assert resumed.returncode == 0 and "continues after step 4" in resumed.stdout, resumed.stderr
    assert adapter_bytes(tmp_path / "halves") == adapter_bytes(tmp_path / "whole")
    assert len((tmp_path / "log").read_text().splitlines()) == 9
    finished = mebp(*halves, "--steps", 9, "--resume")
    assert finished.returncode == 0 and "has finished" in finished.stdout


def test_a_killed_run_continues_bitwise(bundle, data, tmp_path):
    common = ["train", bundle, "--data", data, "--lr", 1e-2]
    log = tmp_path / "run.jsonl"
    saving = [*common, "--state", tmp_path / "state", "--save-every", 1, "--log", log, "--steps", 100000]
    with running(*saving, until=has_lines(log, 3)) as process:
        process.kill()
    done = len(log.read_text().splitlines())
    steps = done + 5
    resume = [*saving[:-1], steps, "--adapter-out", tmp_path / "resumed", "--resume"]
    assert mebp(*resume).returncode == 0
    assert mebp(*common, "--steps", steps, "--adapter-out", tmp_path / "whole").returncode == 0
    assert adapter_bytes(tmp_path / "resumed") == adapter_bytes(tmp_path / "whole")
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == list(range(1, steps + 1))


def test_ctrl_c_saves_and_exits_130(bundle, data, tmp_path):
    log = tmp_path / "run.jsonl"
    command = ["train", bundle, "--data", data, "--steps", 100000, "--log", log]
    command += ["--state", tmp_path / "state", "--adapter-out", tmp_path / "adapter"]
    with running(*command, until=has_lines(log, 2)) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    assert adapter_bytes(tmp_path / "adapter") and (tmp_path / "state").is_dir()


def test_a_state_of_something_else_is_refused(bundle, data, tmp_path, tmp_path_factory):
    state = ["--state", tmp_path / "state", "--steps", 2]
    first = mebp("train", bundle, "--data", data, *state, "--resume")
    assert first.returncode == 0 and "no state to resume from" in first.stdout
    assert "--lr" in refusal("train", bundle, "--data", data, *state, "--resume", "--lr", 1e-3)
    assert "--seed" in refusal("train", bundle, "--data", data, *state, "--resume", "--seed", 1)
    assert "--accumulate 1, not 2;" in refusal("train", bundle, "--data", data, *state, "--resume", "--accumulate", 2)
    assert "clip 0, the session has 1;" in refusal("train", bundle, "--data", data, *state, "--resume", "--clip", 1)
    changed = tmp_path / "other.txt"
    changed.write_text(TEXT + "More.\n")
    assert "data" in refusal("train", bundle, "--data", changed, *state, "--resume")
    for difference in ({"seq_len": 16}, {"seed": 1}):  # another program; the same with other weights
        other = make_text_bundle(tmp_path_factory.mktemp("other"), **difference)
        assert "bundle" in refusal("train", other, "--data", data, *state, "--resume")


def test_a_state_is_one_run_s(bundle, data, tmp_path):
    log = tmp_path / "run.jsonl"
    state, adapter = tmp_path / "state", tmp_path / "adapter"
    arguments = ["train", bundle, "--data", data, "--steps", 100000]
    with running(*arguments, "--log", log, "--state", state, "--adapter-out", adapter, until=has_lines(log, 1)):
        for option, path, kind in (("--state", state, "folder"), ("--adapter-out", adapter, "folder"),
                                   ("--log", log, "file")):  # fmt: skip
            busy = f"{path}: another run uses this {kind}; wait until it ends or choose another"
            assert refusal(*arguments, option, path, "--overwrite") == f"mebp: {busy}"
        tokens = tmp_path / "tokens.npy"
        np.save(tokens, np.zeros((2, 32), np.int32))
        other = subprocess.run(
            [find_tool("mebp-run"), bundle, "--tokens", tokens, "--state", state, "--overwrite"],
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        busy = f"{state}: another run uses this folder; wait until it ends or choose another"
        assert (other.returncode, other.stderr) == (2, f"mebp-run: {busy}\n")


def test_a_run_says_that_it_goes_on_from_the_state_before(bundle, data, tmp_path):
    common = ["train", bundle, "--data", data, "--lr", 1e-2, "--save-every", 1]
    folders = ["--state", tmp_path / "state", "--adapter-out", tmp_path / "adapter"]
    assert mebp(*common, "--steps", 4, "--adapter-out", tmp_path / "whole").returncode == 0
    assert mebp(*common, "--steps", 3, *folders).returncode == 0
    state = tmp_path / "state" / "state.bin"
    state.write_bytes(state.read_bytes()[:-1])
    resumed = mebp(*common, "--steps", 4, *folders, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert f"{state}: is damaged, so the state before it is used, of step " in resumed.stdout
    assert adapter_bytes(tmp_path / "adapter") == adapter_bytes(tmp_path / "whole")


def read_log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_more_than_the_budget_is_refused(tmp_path, data):
    free = Session(make_text_bundle(tmp_path / "free"))
    budget = f"{free.plan['peak_bytes'] + 1000}B"
    bundle = make_text_bundle(tmp_path / "bounded", memory_budget=budget)
    options = (bundle, "--data", data, "--steps", 1)
    assert mebp("train", *options).returncode == 0
    line = refusal("train", *options, "--accumulate", 2)
    assert "compiled for a budget of" in line and "--accumulate" in line


def test_accumulated_batches_are_one_step(bundle, data, tmp_path):
    rows = -(-len(TEXT + "\n") // 32)  # a token a byte, and the end of the text
    run = mebp("train", bundle, "--data", data, "--accumulate", 5, "--epochs", 1, "--log", tmp_path / "run.jsonl")
    assert run.returncode == 0 and re.search(r"planned peak: [\d.]+ MB with these options \(", run.stdout), run.stderr
    records = read_log(tmp_path / "run.jsonl")
    assert len(records) == -(-rows // 10)
    assert records[0]["tokens"] == 10 * 31 and sum(record["tokens"] for record in records) == len(TEXT) + 1 - rows


def adapter_norm(folder: Path) -> float:
    tensors = load_file(folder / "adapter_model.safetensors")
    return math.sqrt(sum(float((values**2).sum()) for key, values in tensors.items() if "lora_B" in key))


def test_clipping_bounds_the_update(bundle, data, tmp_path):
    common = ["train", bundle, "--data", data, "--steps", 3, "--optimizer", "sgd", "--lr", 1.0, "--adapter-out"]
    assert mebp(*common, tmp_path / "free").returncode == 0
    assert mebp(*common, tmp_path / "clipped", "--clip", 1e-4, "--log", tmp_path / "run.jsonl").returncode == 0
    assert adapter_norm(tmp_path / "clipped") < 3.001e-4 < adapter_norm(tmp_path / "free")  # B is zero at first
    assert read_log(tmp_path / "run.jsonl")[0]["grad_norm"] > 1e-3  # as it was before


def test_evaluation_tells_and_changes_nothing(bundle, data, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(TEXT[::-1])
    common = ["train", bundle, "--data", data, "--lr", 1e-2, "--steps", 5, "--adapter-out"]
    assert mebp(*common, tmp_path / "plain").returncode == 0
    watching = [*common, tmp_path / "watched", "--eval", other, "--eval-every", 2, "--log", tmp_path / "run.jsonl"]
    run = mebp(*watching, "--plot", tmp_path / "run.png")
    assert run.returncode == 0 and "step 4/5  eval loss" in run.stdout, run.stderr
    assert adapter_bytes(tmp_path / "watched") == adapter_bytes(tmp_path / "plain")
    log = read_log(tmp_path / "run.jsonl")
    assert [line["step"] for line in log if "eval_loss" in line] == [2, 4, 5]
    evaluated = mebp("eval", bundle, "--data", other, "--adapter", tmp_path / "watched", "--json")
    assert log[-1]["eval_loss"] == pytest.approx(json.loads(evaluated.stdout)["loss"], rel=1e-6)


def test_evaluation_is_once_an_epoch(bundle, tmp_path):
    (tmp_path / "data.txt").write_text(TEXT[:190])  # six rows, three steps
    log = tmp_path / "run.jsonl"
    file = tmp_path / "data.txt"
    assert mebp("train", bundle, "--data", file, "--eval", file, "--epochs", 2, "--log", log).returncode == 0
    assert [line["step"] for line in read_log(log) if "eval_loss" in line] == [3, 6]


def test_ctrl_c_is_seen_during_evaluation_which_a_resumed_run_makes(bundle, data, tmp_path):
    long, log = tmp_path / "long.txt", tmp_path / "run.jsonl"
    long.write_text(TEXT * 200)
    common = ["train", bundle, "--data", data, "--log", log, "--state", tmp_path / "state", "--eval-every", 1]
    with running(*common, "--steps", 100000, "--eval", long, until=has_lines(log, 1)) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    assert [line["step"] for line in read_log(log)] == [1] and "loss" in read_log(log)[0]
    resumed = mebp(*common, "--steps", 2, "--eval", data, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert [line["step"] for line in read_log(log) if "eval_loss" in line] == [1, 2]


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_what_was_good(bundle, data, tmp_path):
    common = ["train", bundle, "--data", data, "--optimizer", "sgd", "--lr", 1e30, "--seed", 3]
    assert mebp(*common, "--steps", 1, "--adapter-out", tmp_path / "one").returncode == 0
    run = mebp(*common, "--steps", 9, "--adapter-out", tmp_path / "nine", "--state", tmp_path / "state")
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("mebp: step 2: the loss is") and "kept: the state of step 1 in" in run.stderr
    assert adapter_bytes(tmp_path / "nine") == adapter_bytes(tmp_path / "one")
    assert (tmp_path / "state" / "state.bin").exists()
    again = mebp(*common, "--steps", 9, "--adapter-out", tmp_path / "none", "--state", tmp_path / "state", "--resume")
    assert again.returncode == 2 and again.stderr.startswith("mebp: step 2: the loss is"), again.stderr
    assert not (tmp_path / "none").exists()
    seen = mebp(*common, "--steps", 9, "--eval", data, "--eval-every", 1)
    assert seen.returncode == 2 and seen.stderr.startswith(f"mebp: {data} after step 1: the loss is"), seen.stderr


def test_an_applied_gradient_that_is_not_finite_is_not_saved(bundle, data, tmp_path, monkeypatch):
    step = Session.step

    def overflowing(session: Session, *batches: object) -> StepResult:
        result = step(session, *batches)
        return replace(result, grad_norm=math.inf) if session.steps == 3 else result

    monkeypatch.setattr(Session, "step", overflowing)
    folders = {"adapter_out": tmp_path / "adapter", "state": tmp_path / "state"}
    with pytest.raises(Error, match=r"^step 3: the gradient's norm is inf and was applied, so nothing is saved; "):
        train(TrainingOptions(bundle, data, steps=5, save_every=2, **folders))
    assert not folders["adapter_out"].exists()
    monkeypatch.undo()
    session = Session(bundle)
    session.load_state(folders["state"])
    assert session.steps == 2


def test_what_can_be_written_is_where_something_else_cannot(bundle, data, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise Error("run/state.bin: the disk is full")

    monkeypatch.setattr(Session, "save_state", fail)
    files = {"adapter_out": tmp_path / "adapter", "state": tmp_path / "state", "plot": tmp_path / "run.png"}
    with pytest.raises(Error, match=r"^run/state.bin: the disk is full; kept: the adapter of step 1 in .*/adapter$"):
        train(TrainingOptions(bundle, data, steps=1, **files))
    assert adapter_bytes(files["adapter_out"]) and files["plot"].exists()


def test_options_from_a_file(bundle, data, tmp_path):
    config, log = tmp_path / "run.yaml", tmp_path / "run.jsonl"
    config.write_text(f"bundle: {bundle}\ndata: {data}\nsteps: 2\nlr: 1e-3\nlog: {log}\nsave-every: 1\n")
    assert mebp("train", "--config", config).returncode == 0
    assert [line["lr"] for line in read_log(log)] == [1e-3, 1e-3]
    assert mebp("train", "--config", config, "--steps", 3, "--lr", 2e-3, "--overwrite").returncode == 0
    assert [line["lr"] for line in read_log(log)] == [2e-3] * 3
    assert refusal("train", "--config", config, "--log", config).endswith(
        "is also --config, which would be lost; choose another"
    )
    config.write_text(f"bundle: {bundle}\nlr: 1e-3\nsetps: 2\n")
    assert refusal("train", "--config", config).endswith("run.yaml:3: unknown option 'setps'; did you mean steps?")
    config.write_text(f"bundle: {bundle}\n")
    assert "--data FILE must be given, here or in --config" in refusal("train", "--config", config)


@pytest.mark.parametrize(
    "sample",
    [
        {"text": "Documents say little."},
        {"prompt": "Say:", "completion": " little"},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]},
    ],
    ids=["text", "prompt", "messages"],
)
def test_json_lines_of_each_form_are_learned(bundle, tmp_path, sample):
    path, log = tmp_path / "data.jsonl", tmp_path / "run.jsonl"
    path.write_text((json.dumps(sample) + "\n") * 4)
    run = mebp("train", bundle, "--data", path, "--steps", 12, "--lr", 1e-2, "--log", log)
    assert run.returncode == 0, run.stderr
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    assert losses[-1] < 0.8 * losses[0]


def test_only_what_the_assistant_says_counts(bundle, tmp_path):
    path, log = tmp_path / "data.jsonl", tmp_path / "run.jsonl"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    too_long = [{"role": "user", "content": "Hi" * 40}, messages[1]]
    path.write_text("".join(json.dumps({"messages": turns}) + "\n" for turns in (messages, too_long)))
    run = mebp("train", bundle, "--data", path, "--steps", 1, "--log", log)
    assert "1 of 2 samples were cut to 32 tokens" in run.stdout, run.stderr
    assert "1 of 2 samples had no assistant token within 32 tokens and were left out" in run.stdout
    assert json.loads(log.read_text())["tokens"] == len("Yo") + 1  # a token a byte, and the end of the turn
    evaluated = mebp("eval", bundle, "--data", path)
    assert "were left out" in evaluated.stdout and "over 3 tokens" in evaluated.stdout, evaluated.stderr


def test_a_bad_line_is_named(bundle, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "fine"}\n{"text": "cut\n')
    for command in ("train", "eval"):
        assert "data.jsonl:2: is not JSON" in refusal(command, bundle, "--data", path)


def test_refusals(bundle, data, tmp_path):
    train = ["train", bundle, "--data", data]
    assert "no bundle at" in refusal("train", tmp_path / "none.mebp", "--data", data)
    assert "none.txt" in refusal("train", bundle, "--data", tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("\n")
    assert "no text" in refusal("train", bundle, "--data", tmp_path / "empty.txt")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\x00 abc")
    assert "UTF-8" in refusal("train", bundle, "--data", tmp_path / "latin.txt")
    assert "galore" in refusal(*train, "--optimizer", "galore")
    assert "cuda" in refusal(*train, "--device", "cuda")
    assert "--clip" in refusal(*train, "--clip", 0)
    trains = "trains an adapter and no weights of the model; give --adapter-out; mebp merge makes a model of it"
    assert trains in refusal(*train, "--model-out", tmp_path / "model")
    assert "none.txt" in refusal(*train, "--eval", tmp_path / "none.txt")
    line = "sgd has no option 'betas'; leave it out, or choose adamw, "
    assert line in refusal(*train, "--optimizer", "sgd", "--betas", "0.9,0.99")
    assert "lion has no option 'momentum'; leave it out, or choose sgd" in refusal(
        *train, "--optimizer", "lion", "--momentum", 0.9
    )
    line = "perturbation is 0.0; give a finite number above 0"
    assert line in refusal(*train, "--optimizer", "mezo", "--perturbation", 0)
    assert "--betas is '0.9'; give numbers with commas between them, such as 0.9,0.999" in refusal(
        *train, "--betas", "0.9"
    )
    assert "NAME.mebp and --data FILE must be given" in refusal("train")
    assert "--steps" in refusal(*train, "--steps", 0)
    assert "lr" in refusal(*train, "--lr", "nan")
    assert "--state" in refusal(*train, "--resume")
    assert "cannot be made" in refusal(*train, "--steps", 1, "--log", "/proc/nothing/run.jsonl")
    assert "--plot run.what" in refusal(*train, "--steps", 1, "--plot", "run.what")
    assert (
        refusal(*train, "--step", 1)
        == "mebp: '--step' is not an option of this command; did you mean --steps?; see mebp train --help"
    )
    assert refusal(*train, "--learning-rate=1").startswith("mebp: '--learning-rate' is not an option of this command;")
    several = "give --data once for each file"
    assert refusal(*train, "more") == f"mebp: 'more' is one argument too many; {several}; see mebp train --help"
    assert refusal(*train, "--threads", 0) == "mebp: threads is 0; give at least 1, or leave it out for all"
    assert "sequence" in refusal("generate", bundle, "--prompt", "long " * 40)


def test_inspect(bundle):
    shown = mebp("inspect", bundle)
    assert shown.returncode == 0 and "planned peak" in shown.stdout, shown.stderr
    found = json.loads(mebp("inspect", bundle, "--json").stdout)
    assert found["model"]["sequence"] == 32 and found["plan"]["peak_bytes"] > 0
    assert [block["kind"] for block in found["blocks"]] == ["embed", "layer", "layer", "head"]


def test_a_run_is_not_lost_to_one_that_forgets_to_resume(bundle, data, tmp_path):
    log, state = tmp_path / "run.jsonl", tmp_path / "state"
    common = ["train", bundle, "--data", data, "--log", log, "--state", state, "--adapter-out", tmp_path / "adapter"]
    assert mebp(*common, "--steps", 2).returncode == 0
    before = log.read_text(), (state / "state.bin").read_bytes(), adapter_bytes(tmp_path / "adapter")
    for steps in (2, 5):  # of a finished run, and of one that could go on
        assert refusal(*common, "--steps", steps) == (
            f"mebp: {state}: holds the state of a run (after step 2); "
            "add --resume to go on or --overwrite to start over"
        )
    with pytest.raises(Error, match="add --resume to go on or --overwrite to start over"):
        train(TrainingOptions(bundle, data, state=state, steps=5), progress=False)
    assert before == (log.read_text(), (state / "state.bin").read_bytes(), adapter_bytes(tmp_path / "adapter"))
    anew = mebp(*common, "--steps", 1, "--overwrite", "--seed", 5)
    assert anew.returncode == 0 and [line["step"] for line in read_log(log)] == [1], anew.stderr
    train(TrainingOptions(bundle, data, state=state, steps=1, overwrite=True), progress=False)


def test_data_is_not_lost_to_an_output(bundle, data, tmp_path):
    for option in ("--log", "--profile"):
        assert refusal("train", bundle, "--data", data, option, data, "--overwrite") == (
            f"mebp: {option} {data}: is also --data, which would be lost; choose another"
        )
    assert data.read_text() == TEXT
    assert refusal("inspect", bundle, "--html", data) == (
        f"mebp: --html {data}: exists and is not a page of mebp; choose another"
    )
    page = tmp_path / "page.html"
    for _ in range(2):  # which is made again, for it holds nothing that the bundle has not
        assert mebp("inspect", bundle, "--html", page).returncode == 0
    assert data.read_text() == TEXT


def test_a_plan_is_not_written_over_something_else(bundle, data, tmp_path):
    model = bundle.parent / "model.onnx"
    plan = tmp_path / "plan.json"

    def mebpc(file: Path) -> subprocess.CompletedProcess:
        command = [find_tool("mebpc"), str(model), "--plan-only", "--plan-json", str(file)]
        return subprocess.run(command, capture_output=True, text=True)

    for _ in range(2):
        assert mebpc(plan).returncode == 0 and json.loads(plan.read_text())["peak_bytes"]
    before = model.read_bytes()
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200_000)
    for file, reason in (
        (deep, "exists and is not a plan of mebpc; choose another"),
        (data, "exists and is not a plan of mebpc; choose another"),
        (model, "is also the model, which would be lost; choose another"),
        (tmp_path, "something else is there; choose another"),
        (Path("/dev/full"), "cannot be written (No space left on device); make room or choose another"),
    ):
        run = mebpc(file)
        assert (run.returncode, run.stderr) == (2, f"mebpc: --plan-json {file}: {reason}\n")
    assert data.read_text() == TEXT and model.read_bytes() == before


def test_a_run_goes_on_from_an_adapter(bundle, data, tmp_path):
    common = ["train", bundle, "--data", data, "--lr", 1e-2, "--steps", 3]
    first = tmp_path / "first"
    assert mebp(*common, "--adapter-out", first, "--log", tmp_path / "first.jsonl").returncode == 0
    second = [*common, "--adapter", first, "--adapter-out", tmp_path / "second", "--state", tmp_path / "state"]
    assert mebp(*second, "--log", tmp_path / "second.jsonl").returncode == 0
    whole = mebp("eval", bundle, "--data", data, "--adapter", first, "--json")
    assert read_log(tmp_path / "second.jsonl")[0]["loss"] < read_log(tmp_path / "first.jsonl")[0]["loss"]
    assert json.loads(whole.stdout)["loss"] < read_log(tmp_path / "first.jsonl")[0]["loss"]
    assert mebp(*second, "--resume").returncode == 0
    assert "--adapter" in refusal(*second[:-6], "--state", tmp_path / "state", "--resume")
    assert "--adapter" in refusal(*common, "--adapter", tmp_path / "none", "--adapter-out", tmp_path / "third")
