# SPDX-License-Identifier: Apache-2.0
"""`mebp calibrate`, and what mebpc predicts with the rates that it finds."""

import errno
import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from mebp import Error, export
from mebp.calibration import calibrate
from mebp.tools import find_tool
from support import models
from support.commands import MEBP, TIMEOUT, mebp, printed, refusal, running

TERMS = ["call", "product", "weight", "element"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibration")
    export(models.build("llama"), folder / "model.onnx", seq_len=64)
    return folder / "model.onnx"


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    """What `mebp calibrate --quick` printed, which is what it wrote."""
    path = tmp_path_factory.mktemp("rates") / "new" / "rates.json"
    run = mebp("calibrate", "--quick", "--threads", "2", "--json", "-o", path)
    assert run.returncode == 0, run.stderr
    assert [file.name for file in path.parent.iterdir()] == ["rates.json"]
    assert json.loads(run.stdout) == json.loads(path.read_text())
    return json.loads(run.stdout)


def mebpc(model, *options: object, **environment: str) -> subprocess.CompletedProcess:
    command = [find_tool("mebpc"), str(model), "--plan-only", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def plan(model, tmp_path, *options: object) -> dict:
    path = tmp_path / "plan.json"
    run = mebpc(model, "--plan-json", path, *options)
    assert run.returncode == 0, run.stderr
    return json.loads(path.read_text())


def write(path, rates: dict, factor: float = 1, **changes: object):
    """The rates, each times `factor`."""
    scaled = {
        name: [[factor * rate for rate in terms] for terms in lists] for name, lists in rates["nanoseconds"].items()
    }
    path.write_text(json.dumps({**rates, "nanoseconds": scaled, **changes}))
    return path


def predict(model, tmp_path, rates: dict, *options: object, factor: float = 1) -> float:
    path = write(tmp_path / "rates.json", rates, factor)
    return plan(model, tmp_path, "--rates", path, *options)["predicted_seconds"]


def test_says_what_it_found(found, tmp_path):
    assert found["version"] == 1 and found["threads"] == [1, 2] and found["terms"] == TERMS
    run = mebp("calibrate", "--quick", "--threads", "1", "-o", tmp_path / "rates.json")
    assert run.returncode == 0 and run.stderr == ""
    assert "products in GFLOP/s" in run.stdout and "linear_input_gradient  bf16         int4" in run.stdout
    assert run.stdout.endswith(f"{tmp_path / 'rates.json'}: mebpc reads this file to predict step times\n")
    assert json.loads((tmp_path / "rates.json").read_text())["threads"] == [1]


def test_slower_machine_takes_longer_in_proportion(exported, found, tmp_path):
    for options in (["--threads", "1"], ["--threads", "2", "--optimizer", "sgd"], ["--chunk-size", "16"]):
        once, twice = (predict(exported, tmp_path, found, *options, factor=factor) for factor in (1, 2))
        assert once > 0
        assert twice == pytest.approx(2 * once, rel=1e-9)


@pytest.mark.parametrize("family", models.FAMILIES)
def test_every_call_of_a_plan_has_a_rate(family, found, tmp_path):
    """A name that is not in the file would be estimated, and that is more than nothing."""
    export(models.build(family), tmp_path / "model.onnx", seq_len=32)
    for options in (
        ["--precision", "f32"],
        ["--chunk-size", "16", "--weights", "int8", "--optimizer", "sgd"],
        ["--spill", "checkpoints"],
        ["--weights", "bf16", "--optimizer", "mezo"],
    ):
        assert predict(tmp_path / "model.onnx", tmp_path, found, *options, factor=0) == 0


def test_rates_of_other_numbers_of_threads_lie_between(exported, found, tmp_path):
    # Of each second on one thread a tenth does not shrink: 0.1 + 0.9 / threads.
    ones = {name: [[1e3] * 4, [1e3 * (0.1 + 0.9 / 6)] * 4] for name in found["nanoseconds"]}
    rates = {**found, "nanoseconds": ones, "threads": [1, 6]}
    one, three, six, twelve = (predict(exported, tmp_path, rates, "--threads", count) for count in (1, 3, 6, 12))
    assert three == pytest.approx(0.4 * one)
    assert six == pytest.approx(0.25 * one)
    assert twelve == six


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="a process keeps to some of several cores on Linux alone",
)
def test_a_plan_is_for_the_cores_that_the_process_may_use(exported, found, tmp_path):
    rates = {**found, "nanoseconds": {name: [[4e3] * 4, [1e3] * 4] for name in found["nanoseconds"]}, "threads": [1, 4]}
    cores = os.sched_getaffinity(0)
    one, every = (predict(exported, tmp_path, rates, "--threads", count) for count in (1, len(cores)))
    assert every < one
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert predict(exported, tmp_path, rates) == one
    finally:
        os.sched_setaffinity(0, cores)
    assert predict(exported, tmp_path, rates) == every


def test_a_last_chunk_costs_what_it_has(exported, found, tmp_path):
    """Of 36 positions in chunks of 32 the second has 4, with all weights to unpack."""
    only = {name: [[0] * 4, [0] * 4] for name in found["nanoseconds"]}
    forward = {**only, "linear bf16 int4 low": [[0, 1e3, 0, 0]] * 2}
    unpacked = {**only, "linear bf16 int4 low": [[0, 0, 1e3, 0]] * 2}

    def of(rates: dict, *options: object) -> float:
        return predict(exported, tmp_path, {**found, "nanoseconds": rates}, "--seq-len", "36", *options)

    assert of(forward, "--chunk-size", "32") == pytest.approx(of(forward), rel=1e-9)
    assert of(unpacked, "--chunk-size", "32") == pytest.approx(2 * of(unpacked), rel=1e-9)


def test_a_plan_says_whether_the_machine_was_measured(exported, found, tmp_path):
    rates = write(tmp_path / "rates.json", found)
    assert plan(exported, tmp_path, "--rates", rates)["calibrated"]
    assert not plan(exported, tmp_path, "--rates", "none")["calibrated"]
    assert " s a step (calibrated on this machine)" in mebpc(exported, "--rates", rates).stdout
    uncalibrated = mebpc(exported, "--rates", "none").stdout
    assert "  estimated " in uncalibrated and "calibrated on" not in uncalibrated


def test_a_bundle_says_it_too(exported, found, tmp_path):
    rates, bundle = write(tmp_path / "rates.json", found), tmp_path / "out.mebp"
    command = [find_tool("mebpc"), exported, "-o", bundle, "--rates", rates]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == 0
    described = json.loads(mebp("inspect", bundle, "--json").stdout)["plan"]
    assert described["calibrated"] and described["predicted_seconds"] > 0


def test_takes_the_cached_rates_by_itself(exported, found, tmp_path):
    cache = {"MEBP_CACHE": str(tmp_path)}
    assert "  estimated " in mebpc(exported, **cache).stdout
    run = subprocess.run(
        [*MEBP, "calibrate", "--quick", "--threads", "1"],
        capture_output=True,
        text=True,
        env={**os.environ, **cache},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    with_cache = mebpc(exported, **cache)
    assert "  predicted " in with_cache.stdout and with_cache.stderr == ""
    assert "  estimated " in mebpc(exported, "--rates", "none", **cache).stdout


def test_another_processors_rates_are_not_taken_unasked(exported, found, tmp_path):
    path = write(tmp_path / "rates.json", found, processor="Abacus")
    run = mebpc(exported, MEBP_CACHE=str(tmp_path))
    assert run.returncode == 0 and "  estimated " in run.stdout
    assert run.stderr == (
        f"mebpc: note: {path} was measured on another processor (Abacus), so times are estimates; "
        "run mebp calibrate again\n"
    )
    assert "  predicted " in mebpc(exported, "--rates", path).stdout  # whoever names it means it


BROKEN = {
    "is not JSON": lambda rates: "{",
    "has no version, or another than 1": lambda rates: {**rates, "version": 2},
    "lacks processor, threads or nanoseconds": lambda rates: {**rates, "threads": []},
    "has threads that do not ascend from 1 on": lambda rates: {**rates, "threads": [2, 1]},
    "has no 4 rates for 'sgd' on each number of threads": lambda rates: {
        **rates,
        "nanoseconds": {"sgd": [[0, 0, 0, 1], [0, 0, 0, -1]]},
    },
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_file_is_refused_or_passed_over(message, exported, found, tmp_path):
    path, broken = tmp_path / "rates.json", BROKEN[message](found)
    path.write_text(broken if isinstance(broken, str) else json.dumps(broken))
    run = mebpc(exported, "--rates", path)
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr == f"mebpc: --rates {path}: {message}; run mebp calibrate again\n"
    run = mebpc(exported, MEBP_CACHE=str(tmp_path))
    assert run.returncode == 0 and "  estimated " in run.stdout
    assert run.stderr == f"mebpc: note: {path}: {message}; run mebp calibrate again; times are estimates until then\n"


def plant_pipe(path: Path) -> None:
    os.mkfifo(path)


def plant_hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # which takes no disk


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (lambda path: path.write_text("[" * 200_000), "is not JSON"),
        (plant_pipe, "is not a file of rates"),
        (plant_hole, "is not a file of rates"),
    ],
    ids=["deep", "pipe", "hole"],
)
def test_what_somebody_planted_is_refused_or_passed_over(plant, message, exported, tmp_path):
    path = tmp_path / "rates.json"
    plant(path)
    run = mebpc(exported, "--rates", path)
    assert (run.returncode, run.stderr) == (2, f"mebpc: --rates {path}: {message}; run mebp calibrate again\n")
    run = mebpc(exported, MEBP_CACHE=str(tmp_path))
    assert run.returncode == 0 and "  estimated " in run.stdout
    assert run.stderr == f"mebpc: note: {path}: {message}; run mebp calibrate again; times are estimates until then\n"


def test_a_processor_s_name_is_shown_without_what_a_terminal_obeys(exported, found, tmp_path):
    path = write(tmp_path / "rates.json", found, processor="Aba\x1b[2Jcus\n")
    run = mebpc(exported, MEBP_CACHE=str(tmp_path))
    assert run.returncode == 0
    assert run.stderr == (
        f"mebpc: note: {path} was measured on another processor (Aba?[2Jcus?), so times are estimates; "
        "run mebp calibrate again\n"
    )


def test_another_devices_file_is_refused_or_passed_over(exported, found, tmp_path):
    path = write(tmp_path / "rates.json", found, device="mlx")
    message = "was measured on the device 'mlx'; give the file of mebp calibrate --device cpu"
    run = mebpc(exported, "--rates", path)
    assert run.returncode == 2 and run.stderr == f"mebpc: --rates {path}: {message}\n"
    run = mebpc(exported, MEBP_CACHE=str(tmp_path))
    assert run.returncode == 0 and "  estimated " in run.stdout
    assert run.stderr == f"mebpc: note: {path}: {message}; times are estimates until then\n"


def test_a_file_from_before_there_were_devices_is_the_cpus(exported, found, tmp_path):
    older = {name: value for name, value in found.items() if name not in ("device", "description")}
    assert plan(exported, tmp_path, "--rates", write(tmp_path / "rates.json", older))["calibrated"]


def test_a_device_has_a_file_of_its_own(found, tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path))
    run = mebp("calibrate", "--quick", "--device", "mlx-cpu")
    path = tmp_path / "rates_mlx-cpu.json"
    assert run.returncode == 0 and run.stderr == ""
    assert run.stdout.endswith(f"{path}: mebpc --device mlx-cpu reads this file to predict step times\n")
    assert not (tmp_path / "rates.json").exists()
    measured = json.loads(path.read_text())
    assert measured["device"] == "mlx-cpu" and "MLX 0.32.4" in measured["description"] and measured["kernels"] == "mlx"
    assert measured["threads"] == [1] and found["nanoseconds"].keys() == measured["nanoseconds"].keys()
    assert all(len(rates) == 1 and sum(rates[0]) > 0 for rates in measured["nanoseconds"].values())


def test_a_file_that_is_not_there_is_refused(exported, tmp_path):
    run = mebpc(exported, "--rates", tmp_path / "none.json")
    assert run.returncode == 2
    assert run.stderr == (
        f"mebpc: --rates {tmp_path / 'none.json'}: No such file or directory; mebp calibrate writes such a file\n"
    )


def test_refuses_what_it_cannot_do(tmp_path):
    (tmp_path / "file").touch()
    assert refusal("calibrate", "-o", tmp_path) == f"mebp: {tmp_path}: is a folder; give a file"
    inside = tmp_path / "file" / "rates.json"
    assert refusal("calibrate", "-o", inside) == (
        f"mebp: {inside}: its folder cannot be made (File exists); choose another with -o"
    )
    assert refusal("calibrate", "--threads", "0") == "mebp: --threads 0: give 1 to 1024"
    assert refusal("calibrate", "--device", "cuda") == (
        "mebp: there is no device 'cuda'; choose cpu, mlx or mlx-cpu (an NVIDIA GPU is mlx, too)"
    )
    threads = refusal("calibrate", "--device", "mlx-cpu", "--threads", "2", "-o", tmp_path / "rates.json")
    assert threads == "mebp: the device 'mlx-cpu' has no threads to choose; leave them out"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_times_the_kernels_that_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_KERNELS", "reference")
    run = mebp("calibrate", "--quick", "--threads", "1", "--json", "-o", tmp_path / "rates.json")
    assert json.loads(run.stdout)["kernels"] == "reference", run.stderr
    monkeypatch.setenv("MEBP_KERNELS", "avx1024")
    assert refusal("calibrate", "-o", tmp_path / "none.json").startswith("mebp: MEBP_KERNELS=avx1024: this CPU has ")
    assert [file.name for file in tmp_path.iterdir()] == ["rates.json"]


def has_filled_its_pools(process: int) -> bool:
    """Of what it times calls on, 300 MB; Python and the runtime by themselves are 30."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > 100e6


def test_ctrl_c_leaves_nothing(tmp_path):
    path = tmp_path / "rates.json"
    # Not while the runtime is being loaded: what Ctrl-C raises there, nanobind may keep to itself.
    with running("calibrate", "-o", path, until=has_filled_its_pools) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
        assert printed(process.stdout) == ""
        assert printed(process.stderr) == "mebp: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, found):
    monkeypatch.setattr(
        "mebp.calibration.load_runtime",
        lambda: SimpleNamespace(check_device=lambda _: None, calibrate=lambda *_: json.dumps(found)),
    )

    def fill_the_disk(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text.encode()[:7])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", fill_the_disk)
    with pytest.raises(
        Error, match=r"rates.json: cannot be written \(No space left on device\); choose another with -o"
    ):
        calibrate(tmp_path / "rates.json")
    assert not list(tmp_path.iterdir())
