# SPDX-License-Identifier: Apache-2.0
"""bench/phones.py and bench/measure_phone.py: rates of a phone, the page's table, and a phone that adb reaches."""

import dataclasses
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import phones
import pytest
from parts import phone_rates
from parts.pages import cells, read_between_marks

import mebp
from support import models

ROOT = Path(__file__).resolve().parents[2]
KERNELS, PHONES = phone_rates.read_phones(phones.PHONES)
NAMES = ["linear bf16 int4", "rms_norm bf16", "adamw", "adamw large", "spill", "memory"]


def run(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "bench" / script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def faster(phone: phone_rates.Phone, times: float) -> phone_rates.Phone:
    cores = [core | {"ghz": times * core["ghz"]} for core in phone.cores]
    return dataclasses.replace(phone, cores=cores, gigabytes_a_second=times * phone.gigabytes_a_second)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> phones.Model:
    folder = tmp_path_factory.mktemp("phones")
    mebp.export(models.build("llama"), folder / "model.onnx", seq_len=16)
    return phones.Model("small", folder / "model.onnx", 16)


@pytest.mark.parametrize("phone", PHONES, ids=lambda phone: phone.name)
def test_a_phone_twice_as_fast_takes_half_as_long(phone, model, tmp_path):
    kernels = dataclasses.replace(KERNELS, call_nanoseconds=0)
    names = list(phones.calibrate(tmp_path / "names.json", quick=True)["nanoseconds"])

    def seconds(phone: phone_rates.Phone) -> float:
        return phones.plan(model, phone_rates.make_rates(phone, kernels, 0.5, names), tmp_path)["predicted_seconds"]

    assert seconds(faster(phone, 2)) == pytest.approx(seconds(phone) / 2, rel=1e-6)


def test_each_rate_of_a_phone_says_where_it_is_from():
    for phone in PHONES:
        assert {"cores, clocks", "memory", "warm", "products a cycle"} == set(phone.sources)
        assert all(source.startswith(("https://", "assumed:", "LPDDR5 of")) for source in phone.sources.values())


def test_the_page_has_each_phone_and_model_and_says_that_it_is_a_model():
    page = ROOT / "docs" / "phones.md"
    table = read_between_marks(page, phones.MARK)
    assert table[:2] == phones.HEADER
    assert [(cells(row)[0], cells(row)[2]) for row in table[2:]] == [
        (phone.name, model) for model in phones.MODELS for phone in PHONES
    ]
    assert "nothing on this page was measured on one" in page.read_text()


def test_refuses_phones_that_lack_something(tmp_path):
    given = json.loads(phones.PHONES.read_text())
    file = tmp_path / "phones.json"

    def refusal() -> str:
        file.write_text(json.dumps(given))
        ended = run("phones.py", "--phones", file)
        assert ended.returncode == 2 and not ended.stdout
        return ended.stderr

    given["phones"][1]["warm"] = 1.5
    rates = "give cores and memory a rate above 0, and warm a share of at most 1"
    assert refusal() == f"phones.py: {file}: Galaxy S23 Ultra: {rates}\n"
    del given["phones"][0]["warm"]
    assert refusal().startswith(f"phones.py: {file}: a field is missing or unknown: ")
    file.write_text("[")
    assert run("phones.py", "--phones", file).stderr.startswith(f"phones.py: {file}: is not JSON: ")


@pytest.fixture(scope="module")
def bundle(model, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("measured") / "small.mebp"
    mebp.compile(model.exported, path, seq_len=16)
    return path


def test_measures_this_machine_in_one_line(bundle):
    ended = run("measure_phone.py", bundle, "--here", "--minutes", 0)
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stdout.splitlines()
    found = json.loads(line)
    assert (found["model"], found["batch"], found["sequence"], found["steps"]) == ("small", 1, 16, 10)
    assert found["cool_seconds"] > 0 and found["warm_seconds"] > 0 and found["peak_bytes"] > 0


def test_measures_a_phone_over_adb_and_leaves_nothing_there(bundle, tmp_path):
    """An adb whose phone is this machine: it does what it is asked below a folder of its own."""
    phone, log = tmp_path / "phone", tmp_path / "log"
    adb = tmp_path / "bin" / "adb"
    adb.parent.mkdir()
    adb.write_text(f"""#!/bin/bash
echo "$1" >> {log}
case $1 in
  push) cp -r "$2" "{phone}$3" ;;
  shell) case $2 in
    getprop*manufacturer) echo Some ;;
    getprop*model) echo Phone ;;
    getprop*) echo 14 ;;
    *) bash -c "${{2//\\/data\\//{phone}/data/}}" ;;
  esac ;;
esac
""")
    adb.chmod(adb.stat().st_mode | stat.S_IXUSR)
    runner = mebp.tools.find_tool("mebp-run")
    path = f"{adb.parent}:{os.environ['PATH']}"
    ended = run("measure_phone.py", bundle, "--runner", runner, "--minutes", 0, PATH=path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["device"] == "Some Phone, Android 14"
    assert log.read_text().count("push") == 4  # runner, bundle, and tokens for each of two runs
    assert list((phone / "data" / "local" / "tmp").iterdir()) == []


def test_says_what_is_wrong_with_a_phone(bundle, tmp_path):
    nothing = run("measure_phone.py", bundle, "--runner", "mebp-run", PATH=str(tmp_path))
    there = "adb is not there; install it, or measure this machine with --here"
    assert (nothing.returncode, nothing.stderr) == (2, f"measure_phone.py: {there}\n")
    missing = run("measure_phone.py", tmp_path / "none.mebp", "--here")
    assert missing.returncode == 2 and "none.mebp" in missing.stderr and missing.stderr.count("\n") == 1
