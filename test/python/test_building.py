# SPDX-License-Identifier: Apache-2.0
"""What a model is compiled to where nobody says: length, budget; and which bundle of the cache it is."""

import json
import os
from pathlib import Path

import pytest

from mebp.building.budget import (
    Budget,
    binding_budget,
    choose_budget,
    find_budget,
    free_budget,
    leaves_plan_open,
    quarter,
    size_text,
)
from mebp.building.fingerprint import bundle_fingerprint, export_fingerprint
from mebp.building.length import Length, choose_length, is_enough_to_share, model_limit
from mebp.compile_options import CompileOptions, compile_option_kinds, flag
from mebp.data.loading import sample_lengths
from mebp.errors import Error
from mebp.exporter.finding import Found
from mebp.memory import free_bytes
from mebp.session_options import byte_size
from mebp.tokenizer import Tokenizer
from mebp.tools import find_tool, run_tool
from support import models
from support.textmodel import make_tokenizer


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    models.save(models.build("llama", num_hidden_layers=1), folder)
    make_tokenizer(folder)
    return folder


def completions(path: Path, *lengths: int) -> Path:
    """Samples of so many tokens each, of which a byte is one, and the end another."""
    samples = [{"prompt": "a", "completion": "b" * (length - 2)} for length in lengths]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ([3, 5, 32], None, Length(32, "which holds all 3 samples, the longest of 32")),
        ([3, 5, 33], None, Length(64, "which holds all 3 samples, the longest of 33")),
        ([10] * 99 + [5000], None, Length(32, "which holds 99 of 100 samples, the longest of 5,000")),
        ([10] * 40 + [50, 70], None, Length(96, "which holds all 42 samples, the longest of 70")),
        ([4000, 10], None, Length(1024, "which holds 1 of 2 samples, the longest of 4,000")),
        ([100], 80, Length(80, "which holds 0 of 1 samples, the longest of 100")),
        ([9], None, Length(32, "which holds all 1 sample, the longest of 9")),
    ],
)
def test_the_length_holds_the_samples(source, tmp_path, lengths, limit, expected):
    data = completions(tmp_path / "data.jsonl", *lengths)
    assert choose_length(sample_lengths(data, Tokenizer.of_model(source), 2000), limit) == expected


def test_rows_that_are_shared_are_longer():
    many = [9, 33] * 1000
    assert choose_length(many, None, packs=True) == Length(
        256, "in which samples share rows; the longest has 33 tokens"
    )
    assert choose_length(many, 100, packs=True).tokens == 100
    assert choose_length([50] * 160, None, packs=True).tokens == 96  # 64 rows of 125 would do, and 128 are fewer
    for few in ([3, 5, 33], [300] * 100):
        assert choose_length(few, None, packs=True) == choose_length(few, None)


def test_few_samples_do_not_share_rows():
    assert is_enough_to_share([10] * 205, 32) and not is_enough_to_share([10] * 204, 32)


def test_what_is_not_cut_is_held():
    assert choose_length([10] * 99 + [5000], None, may_cut=False).tokens == 5024
    assert choose_length([10] * 99 + [5000], 2048, may_cut=False).reason == (
        "which holds 99 of 100 samples, the longest of 5,000"
    )


def test_packed_text_has_the_usual_length(source, tmp_path):
    (tmp_path / "data.txt").write_text("The lamp is lit.")
    for limit, tokens in ((None, 256), (512, 256), (128, 128)):
        length = choose_length(sample_lengths(tmp_path / "data.txt", Tokenizer.of_model(source), 2000), limit)
        assert length == Length(tokens, "as usual for packed text")


def test_many_samples_are_not_all_read(source, tmp_path):
    data = completions(tmp_path / "data.jsonl", *[10] * 1999, *[200] * 2001)
    assert choose_length(sample_lengths(data, Tokenizer.of_model(source), 2000), None).reason == (
        "which holds all 2,000 samples, the longest of 200"
    )


def test_a_model_without_a_tokenizer(tmp_path):
    with pytest.raises(Error) as caught:
        Tokenizer.of_model(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'tokenizer.json'}: does not exist: training on text needs it; save it there with AutoTokenizer's "
        "save_pretrained"
    )


@pytest.mark.parametrize(
    ("config", "limit"),
    [({"max_position_embeddings": 512}, 512), ({"n_positions": 128}, 128), ({}, None), ({"n_positions": "x"}, None)],
)
def test_a_model_s_limit(tmp_path, config, limit):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert model_limit(tmp_path) == limit


@pytest.mark.parametrize("free", [1e6, 300e6, 1.3e9, 15.9e9, 1e12])
def test_the_budget_is_most_of_three_quarters(monkeypatch, free):
    monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: free)
    budget = free_budget()
    assert 0.75 * free * 7 / 8 < budget.bytes <= 0.75 * free
    assert budget.reason == f"{free / 1e6:,.0f} MB are free, a quarter of which is left to all else"
    monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: 1.001 * free)
    assert free_budget().bytes == pytest.approx(budget.bytes, rel=0.13)


def test_a_system_that_does_not_tell(monkeypatch):
    monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: float("inf"))
    with pytest.raises(Error) as caught:
        free_budget()
    assert str(caught.value) == (
        "--memory-budget auto: this system does not tell what is free; give a size, such as 512MiB"
    )


POINTS = [{"peak_bytes": peak * 10**5 + 1, "seconds": seconds} for peak, seconds in
          [(338, 0.87), (383, 0.42), (600, 0.40), (717, 0.345), (993, 0.33)]]  # fmt: skip


@pytest.mark.parametrize(
    ("free", "size", "reason"),
    [
        (1e9, "72MB", "the smallest takes 33.8 MB, with which a step takes 2.5 times as long"),
        (280e6, "39MB", "the smallest takes 33.8 MB, with which a step takes 2.1 times as long"),
        (152e6, "34MB", "the fastest plan within a quarter of the 152 MB that are free, and the smallest"),
        (100e6, "34MB", "the smallest plan, for none fits a quarter of the 100 MB that are free"),
    ],
)
def test_a_plan_of_a_quarter_is_nearly_the_fastest(monkeypatch, free, size, reason):
    monkeypatch.setattr("mebp.building.budget.free_bytes", lambda: free)
    budget = choose_budget(POINTS, quarter())
    assert str(budget) == size and budget.reason.endswith(reason)
    assert any(point["peak_bytes"] <= budget.bytes <= point["peak_bytes"] + 10**6 for point in POINTS)

    assert choose_budget(POINTS, quarter(), 123_400_000).bytes == 124_000_000


def test_a_budget_is_taken_from_the_cache_where_it_fits():
    key, most = "tiny-0123456789abcdef", Budget(100_000_000, "what there is")
    names = [key, f"{key}-60600KB", f"{key}-101MB", f"{key}-72MB", f"{key}-7MB-more"]
    assert str(find_budget(names, most)) == "72MB"
    assert find_budget(names, Budget(50_000_000, "less")) is None
    assert find_budget([f"{key}-1234567B"], most).bytes == 1234567


def test_a_budget_that_nobody_asked_for_binds_nothing():
    assert binding_budget(Path("bundles/tiny-0123456789abcdef-60600KB/tiny.mebp"), 60_600_000) == 0
    for folder in ("tiny-0123456789abcdef", "mine-61MB", "tiny-0123456789abcdef-61MB-2"):
        assert binding_budget(Path(f"bundles/{folder}/tiny.mebp"), 60_600_000) == 60_600_000


def test_who_chooses_the_plan_has_no_other_budget():
    assert leaves_plan_open({}) and leaves_plan_open({"device": "cpu", "spill": "none", "weights": "int8"})
    for told in ({"memory_budget": "1GB"}, {"chunk_size": 0}, {"spill": "checkpoints"}, {"device": "mlx"}):
        assert not leaves_plan_open(told), told


@pytest.mark.parametrize("size", [64_000_000, 67_100_000, 12_345, 1_870_000, 10**12, 999_999_999])
def test_a_size_is_printed_as_it_can_be_given(size):
    assert byte_size("size", size_text(size)) == size


@pytest.mark.parametrize(
    ("line", "root", "files"),
    [
        ("0::/one/two", "", {"memory.max": "1000000", "memory.current": "300000"}),
        ("5:memory:/one/two", "memory", {"memory.limit_in_bytes": "1000000", "memory.usage_in_bytes": "300000"}),
    ],
)
@pytest.mark.parametrize("group", ["one/two", "one", ""])
def test_a_group_s_limit_counts(tmp_path, line, root, files, group):
    groups, own = tmp_path / "sys/fs/cgroup", tmp_path / "proc/self"
    own.mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemAvailable:    2000 kB\n")
    (groups / root / group).mkdir(parents=True)
    for name, value in files.items():
        (groups / root / group / name).write_text(f"{value}\n")
    stated = "inactive_file 50000\n" if not root else "inactive_file 1\ntotal_inactive_file 50000\n"
    (groups / root / group / "memory.stat").write_text(stated)
    (own / "cgroup").write_text(f"{line}\n")
    assert free_bytes(str(tmp_path)) == 750000
    (groups / root / group / next(iter(files))).write_text("max\n")
    assert free_bytes(str(tmp_path)) == 2000 * 1024
    (tmp_path / "proc/meminfo").unlink()
    assert free_bytes(str(tmp_path)) == float("inf")
    assert 1e6 < free_bytes() < float("inf")


def keys(folder: Path, name: str = "model", exporting: dict | None = None, compiling: dict | None = None) -> str:
    return bundle_fingerprint(
        export_fingerprint(Found(name, str(folder), folder), folder, exporting or {}), compiling or {}
    )


def test_another_content_is_another_bundle(source):
    first = keys(source)
    assert keys(source) == first
    assert (
        len(
            {first, keys(source, "other"), keys(source, exporting={"seq_len": 1}), keys(source, compiling={"batch": 2})}
        )
        == 4
    )
    weights, config = source / "model.safetensors", source / "config.json"
    stored, times = weights.read_bytes(), (weights.stat().st_atime_ns, weights.stat().st_mtime_ns)
    changed = bytearray(stored)
    changed[-1] ^= 1
    weights.write_bytes(changed)
    os.utime(weights, ns=times)  # as an archive may give the same time to all that is in it
    second = keys(source)
    weights.write_bytes(stored)
    third = keys(source)  # of another time
    os.utime(weights, ns=times)
    assert len({first, second, third}) == 3 and keys(source) == first
    text = config.read_text()
    config.write_text(text.replace("0.02", "0.03"))
    assert keys(source) != first
    config.write_text(text)
    os.utime(config, ns=(0, 0))
    assert keys(source) == first


def test_another_machine_s_plan_is_another_bundle(source, tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path))
    first = keys(source)
    (tmp_path / "rates.json").write_text("{}")
    assert keys(source) != first
    (tmp_path / "rates.json").unlink()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(77))
    assert keys(source) != first


def test_every_option_is_mebpc_s():
    known = run_tool([find_tool("mebpc"), "--help"])
    assert compile_option_kinds().keys() == CompileOptions.__dataclass_fields__.keys()
    named = CompileOptions.named_by_mebpc(compile_option_kinds())
    assert not [name for name in named if f"{flag(name)} " not in known]
