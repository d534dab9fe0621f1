# SPDX-License-Identifier: Apache-2.0
"""What bench/speed.py reckons: arithmetic, ratios of rounds, tables; and the processes that take turns."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from parts.pages import cells, read_between_marks, write_between_marks
from parts.process_memory import AnonymousPeak, memory_of, parse_status
from parts.speed.arithmetic import layer_linears, needed_arithmetic
from parts.speed.cell import (
    CHECKPOINTING,
    LINEARS,
    MATMUL,
    MEBP,
    MEZO,
    ONE_THREAD,
    OPENING,
    PEAKS,
    PEFT,
    PEFT_F32,
    TRACED,
    Run,
    loaded_once,
    peft_settings,
    shapes,
    take_turns,
)
from parts.speed.claims import Claim, claims
from parts.speed.contender import contender
from parts.speed.machine import multiplies_bf16, parse_cpu, parse_onednn
from parts.speed.models import Model
from parts.speed.on_device import MLX_LM, contenders, missing
from parts.speed.on_device import describe as describe_device
from parts.speed.plot import draw, speeds
from parts.speed.rates import find_bench, parse_kernel_bench, parse_peaks
from parts.speed.report import DEVICE_TABLES, TABLES
from parts.speed.trace import seconds_by_kind
from parts.spread import Spread
from speed import mark, publish
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

import mebp

BENCH = Path(__file__).resolve().parents[2] / "bench"
CONFIG = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,  # not hidden / heads
    "intermediate_size": 80,
    "vocab_size": 100,
}


def test_the_arithmetic_is_what_torch_counts():
    tokens = 12
    model = LlamaForCausalLM(LlamaConfig(**CONFIG, attn_implementation="eager")).requires_grad_(False)
    embeddings = torch.zeros(1, tokens, CONFIG["hidden_size"], requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        logits = model(inputs_embeds=embeddings, use_cache=False).logits
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    needed = needed_arithmetic(CONFIG, tokens)
    product = needed.attention / 8 * 2 * tokens / (tokens + 1)  # torch computes the masked half, too
    angles = 2 * CONFIG["head_dim"] // 2 * tokens  # of the rotary embedding: a product in torch
    assert forward.get_total_flops() == needed.forward + needed.head / 2 + 2 * product + angles
    assert backward.get_total_flops() == needed.input_gradients + needed.head / 2 + 4 * product


def test_a_layer_runs_again_without_its_last_linear():
    needed, tokens = needed_arithmetic(CONFIG, 12), 12
    assert needed.forward - needed.recompute == 2 * tokens * 3 * 80 * 48
    assert needed.total == sum(vars(needed).values())
    assert layer_linears(CONFIG)["o_proj"] == (64, 48)


def test_layers_of_one_shape_stand_together():
    assert shapes(CONFIG | {"head_dim": 12}) == {
        "48x48": ["q_proj", "o_proj"],
        "48x24": ["k_proj", "v_proj"],
        "48x80": ["gate_proj", "up_proj"],
        "80x48": ["down_proj"],
        "48x100": ["lm_head"],
    }


def answers(*times: float, peak: int = 0) -> list[dict]:
    return [{"seconds": taken, "peak_bytes": peak} for taken in times]


LINEAR_RATES = {f"{kind}/8x4": rate for kind, rate in (("linear", 30e9), ("linear_input_gradient", 60e9))}
CELL = {
    "model": "a model",
    "tokens": 1024,
    "threads": 2,
    "shapes": {"8x4": ["up_proj"], "8x99": ["lm_head"]},
    "needed": {"forward": 60e9, "head": 40e9},
    "answers": {
        MEBP: answers(1.0, 2.0, 1.0, peak=60_000_000),
        **{name: answers(5.0, 8.0, 6.0, peak=900_000_000) for name in PEFT},
        "PEFT, no autocast": answers(4.0, 9.0, 3.0),
        MEZO: answers(1.0, 1.0, 2.0),
        OPENING: answers(1.5, 2.5, 1.5, peak=45_000_000),
        TRACED: answers(1.0, 1.0, 1.0),
        ONE_THREAD: answers(1.5, 1.8, 1.9),
        MATMUL: [{"seconds": 1.0, "flops": {"8x4": rate, "8x99": 900e9}} for rate in (200e9, 100e9, 150e9)],
        LINEARS: [{"flops": LINEAR_RATES}] * 3,
        PEAKS: [{"flops": {"f32 FMA": {"1": 40e9, "2": 80e9}, "bf16 dots": {"1": 30e9, "2": 60e9}}}] * 3,
    },
    "profiles": {
        TRACED: [{"linear": 0.75, "add": 0.125}] * 3,
        ONE_THREAD: [{"linear": 1.5, "add": 0.125}] * 3,
    },
}
MACHINE = {"cpu": "A CPU", "kernels": "avx512", "cores": 2, "flags": ["avx512f"], "limits": {}, "onednn": "AVX-512"}


def test_claims_are_ratios_within_a_round():
    found = {claim.text: claim.measured for claim in claims(CELL, MACHINE)}
    assert found == {
        "PEFT with checkpointing / mebp": Spread(5.0, 4.0, 6.0),
        "PEFT's fastest setting / mebp": Spread(4.0, 3.0, 4.0),  # 4 / 1, 8 / 2, 3 / 1
        "memory: PEFT with checkpointing / mebp-run, AdamW": Spread(20.0, 20.0, 20.0),
        "step / the needed arithmetic at torch's best rate": Spread(2.0, 1.5, 2.0),  # the head's rate does not count
        "linear kernels / the faster peak of vectors": Spread(0.5, 0.5, 0.5),  # 40 GFLOP/s together
        "step / MeZO step": Spread(1.0, 0.5, 2.0),
        "one thread / 2 threads": Spread(1.8, 1.5, 1.9),
        "speed-up by threads: step / linear, the largest kernel": Spread(0.9, 0.75, 0.95),
        "mebp-run, from its start through one step / step": Spread(1.5, 1.25, 1.5),
    }


def test_a_claim_needs_its_contenders():
    only = {name: CELL["answers"][name] for name in (MEBP, MEZO)}
    assert [claim.text for claim in claims(CELL | {"answers": only}, MACHINE)] == ["step / MeZO step"]


@pytest.mark.parametrize(("settings", "wanted"), [(PEFT, ">= 2"), (PEFT_F32, ">= 1.1")])
def test_what_is_wanted_beside_peft_depends_on_its_precision(settings, wanted):
    others = {name: found for name, found in CELL["answers"].items() if name not in PEFT}
    found = claims(CELL | {"answers": others | {name: answers(5.0, 8.0, 6.0) for name in settings}}, MACHINE)
    bounds = {claim.text: claim.bound for claim in found}
    assert bounds["PEFT's fastest setting / mebp"] == wanted
    assert bounds["PEFT with checkpointing / mebp"] == ""


@pytest.mark.parametrize(
    ("onednn", "flags", "settings"),
    [
        ("Intel AVX-512 with Intel DL Boost and bfloat16 support", ["avx512_bf16"], PEFT),
        ("AVX-512 and Intel AMX with bfloat16", ["amx_bf16"], PEFT),
        ("nothing for bf16", ["bf16"], PEFT),  # AArch64's own
        ("nothing for bf16", ["avx2", "avx512_bf16"], PEFT_F32),  # held to AVX2
        ("Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions", ["avx512f"], PEFT_F32),
    ],
)
def test_peft_is_in_f32_where_torch_has_no_instructions_for_bf16(onednn, flags, settings):
    assert peft_settings(multiplies_bf16({"onednn": onednn, "flags": flags})) == settings


@pytest.mark.parametrize("has_bf16", [True, False])
def test_all_of_torch_is_in_f32_where_it_has_no_instructions_for_bf16(has_bf16, tmp_path):
    run = Run(["peft", "mezo", "rates"], threads=1, rounds=1, seconds=0, has_bf16=has_bf16)
    found = loaded_once(Model("a model", CONFIG, tmp_path, tmp_path), tmp_path, 8, run, {})
    of_torch = [command for command in found.values() if "parts.speed.torch_steps" in command]
    assert len(of_torch) == (6 if has_bf16 else 4)
    assert all(("f32" in command) != has_bf16 for command in of_torch)


def test_of_peft_only_the_settings_that_are_named_take_part(tmp_path):
    model = Model("a model", CONFIG, tmp_path, tmp_path)
    run = Run(["peft"], threads=1, rounds=1, seconds=0, settings=["PEFT, no autocast"])
    assert loaded_once(model, tmp_path, 8, run, {}).keys() == {MEBP, "PEFT, no autocast"}


def test_tables_have_a_cell_for_each_column():
    tables = {name: make({"machine": MACHINE, "cells": [CELL]}) for name, (make, _) in TABLES.items()}
    for header, rule, *rows in tables.values():
        assert {line.count("|") for line in (rule, *rows)} == {header.count("|")}
    assert tables["machines"][2:] == ["| A CPU, avx512 | 2 | avx512f | AVX-512 |  |"]
    assert tables["peaks"][2:] == [
        "| A CPU, avx512 | f32 FMA | 1 | 40 |",
        "| A CPU, avx512 | f32 FMA | 2 | 80 |",
        "| A CPU, avx512 | bf16 dots | 1 | 30 |",
        "| A CPU, avx512 | bf16 dots | 2 | 60 |",
    ]
    assert tables["claims"][2] == (
        "| A CPU, avx512 | a model | 1,024 | PEFT with checkpointing / mebp |  | 5.00 | 4.00 to 6.00 |"
    )
    assert tables["summary"][2:] == ["| A CPU, avx512 | a model | 1,024 | 5.00 | 4.00 (>= 2) | 20.00 | 1.00 (<= 1.6) |"]
    assert tables["steps"][3] == "| A CPU, avx512 | a model | 1,024 | PEFT | 6.000 | 171 | 5.00 | 4.00 to 6.00 | 900 |"
    assert tables["rates"][2:] == [
        "| A CPU, avx512 | a model | 1,024 | up_proj: 8x4 | 150 | 30 | 60 | 38% | 75% |",
        "| A CPU, avx512 | a model | 1,024 | lm_head: 8x99 | 900 |  |  |  |  |",
    ]
    assert tables["kernels"][2:] == [
        "| A CPU, avx512 | a model | 1,024 | linear | 75.0% | 750.0 | 2.00 |",
        "| A CPU, avx512 | a model | 1,024 | add | 12.5% | 125.0 | 1.00 |",
        "| A CPU, avx512 | a model | 1,024 | no kernel | 12.5% | 125.0 | 1.40 |",
    ]


def test_the_summary_marks_what_is_missed():
    slower = {MEBP: answers(3.0, 3.0, 3.0, peak=60_000_000)}
    [row] = TABLES["summary"][0]({"machine": MACHINE, "cells": [CELL | {"answers": CELL["answers"] | slower}]})[2:]
    assert row == "| A CPU, avx512 | a model | 1,024 | 2.00 | **1.33** (>= 2) | 20.00 | **3.00** (<= 1.6) |"


@pytest.mark.parametrize(
    ("bound", "median", "is_missed"),
    [(">= 2", 1.994, True), (">= 2", 1.996, False), ("<= 1.6", 1.604, False), ("<= 1.6", 1.61, True), ("", 0.0, False)],
)
def test_an_aim_is_missed_by_the_median_as_tables_have_it(bound, median, is_missed):
    assert Claim("a claim", bound, Spread(median, 0.0, 9.0)).is_missed == is_missed


def test_a_row_of_the_summary_is_of_one_run():
    kernels_alone = {name: CELL["answers"][name] for name in (MEBP, TRACED, ONE_THREAD)}
    assert TABLES["summary"][0]({"machine": MACHINE, "cells": [CELL | {"answers": kernels_alone}]})[2:] == []


def test_a_kernel_below_half_a_percent_has_no_row():
    steps = [{"linear": 0.75, "add": 0.0046, "fill": 0.0044}] * 3
    cell = CELL | {"profiles": {TRACED: steps, ONE_THREAD: steps}}
    rows = TABLES["kernels"][0]({"machine": MACHINE, "cells": [cell]})[2:]
    assert [cells(row)[3:5] for row in rows] == [["linear", "75.0%"], ["no kernel", "24.1%"], ["add", "0.5%"]]


def test_each_table_goes_into_the_page_that_has_its_marks(tmp_path):
    results = {"machine": MACHINE, "cells": [CELL]}
    short, long = tmp_path / "short.md", tmp_path / "long.md"
    header, rule, *kernels = TABLES["kernels"][0](results)
    old = [header, rule, kernels[0].replace("linear", "a kernel of old"), kernels[0].replace("a model", "another")]
    for page, names in ((short, ["machines", "summary"]), (long, [*TABLES][2:])):
        page.write_text("".join(f"<!-- {mark(name)} -->\n<!-- end -->\n" for name in names))
    write_between_marks(long, mark("kernels"), old)
    publish(results, [short, long], None)
    for page, names in ((short, ["machines", "summary"]), (long, ["claims", "steps", "rates", "peaks"])):
        for name in names:
            assert read_between_marks(page, mark(name)) == TABLES[name][0](results)
    assert read_between_marks(long, mark("kernels")) == [header, rule, old[3], *kernels]


def test_the_picture_has_what_the_table_has(tmp_path):
    table = TABLES["steps"][0]({"machine": MACHINE, "cells": [CELL]})
    assert speeds(table)["a model, 1,024 tokens\nA CPU, avx512"][CHECKPOINTING] == 171
    draw(table, tmp_path / "all.png")
    draw([row for row in table if MEZO not in row], tmp_path / "without.png")
    assert (tmp_path / "all.png").read_bytes() != (tmp_path / "without.png").read_bytes()


def test_the_pages_have_a_place_for_each_table():
    pages = "".join((BENCH.parent / "docs" / name).read_text() for name in ("speed.md", "speed-tables.md"))
    assert [pages.count(f"<!-- {mark(name)} -->") for name in TABLES] == [1] * len(TABLES)


def test_turns_go_back_and_forth():
    order = []
    turns = {name: lambda name=name: order.append(name) or {} for name in "ab"}
    found = take_turns(turns, Run([], threads=1, rounds=3, seconds=60), "a model")
    assert "".join(order) == "abbaab"
    assert found == {"a": [{}] * 3, "b": [{}] * 3}
    assert len(take_turns(turns, Run([], threads=1, rounds=3, seconds=0), "a model")["a"]) == 2  # never a single one


PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
from parts.speed.contender import serve
kept = []
def step():
    kept.append(bytearray(b"x") * (32 << 20))
    print("no answer")
    return {"made": len(kept)} if len(kept) < 3 else 1 / 0
serve(step)
"""


def test_a_contender_steps_when_it_is_told_to():
    with contender([sys.executable, "-c", PROGRAM, str(BENCH)]) as step:
        first, second = step(), step()
        assert (first["made"], second["made"]) == (1, 2)
        assert 0 < first["seconds"] < 10
        assert abs(second["peak_bytes"] - first["peak_bytes"] - (32 << 20)) < 1 << 20
        with pytest.raises(RuntimeError, match="^ZeroDivisionError: division by zero$"):
            step()
        with pytest.raises(RuntimeError, match="^ZeroDivisionError: division by zero$"):
            step()


def test_a_contender_that_cannot_load_says_why():
    with pytest.raises(RuntimeError, match="^no model$"), contender([sys.executable, "-c", "exit('no model')"]):
        pass


HOLDER = "import sys; kept = bytearray(b'x') * (1 << 25); print('holds it', flush=True); sys.stdin.read()"


def test_the_status_counts_what_the_mappings_do():
    assert parse_status("Name:\tx\nRssAnon:\t 3 kB\nRssFile:\t 9 kB\nRssShmem:\t 1 kB\n") == 4096
    assert parse_status("Name:\tended\n") == 0
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        with AnonymousPeak(other.pid) as peak:
            assert other.stdout.readline() == "holds it\n"  # from here on it takes no more memory
        assert peak.bytes >= 1 << 25
        assert abs(peak.bytes - memory_of(other.pid).written) < 1 << 20


def test_a_profile_falls_into_steps(tmp_path):
    def event(name: str, milliseconds: float, category: str = "kernel") -> dict:
        return {"name": name, "cat": category, "dur": milliseconds * 1e3}

    first = [event("linear", 3), event("forward", 9, "program"), event("linear", 1), event("add", 2)]
    second = [event("linear", 4), event("linear", 4), event("add", 1)]
    (tmp_path / "trace.json").write_text(json.dumps(first + second))
    found = seconds_by_kind(tmp_path / "trace.json", 2)
    assert found == [pytest.approx({"linear": 0.004, "add": 0.002}), pytest.approx({"linear": 0.008, "add": 0.001})]
    with pytest.raises(ValueError, match="6 kernel calls do not make 4 equal steps"):
        seconds_by_kind(tmp_path / "trace.json", 4)


def test_rates_come_from_what_the_programs_print():
    assert parse_peaks("f32 FMA|1|230.5\nf32 FMA|2|450.0\nbf16 dots|2|900.0\n") == {
        "f32 FMA": {"1": 230.5e9, "2": 450e9},
        "bf16 dots": {"2": 900e9},
    }
    name = "linear/bf16/256/896/4864/real_time"
    runs = [{"name": name, "run_type": "iteration", "FLOP/s": rate} for rate in (3e11, 4e11, 2e11)]
    measured = [*runs, {"name": f"{name}_mean", "run_type": "aggregate", "FLOP/s": 5e11}]
    assert parse_kernel_bench(json.dumps({"benchmarks": measured})) == {"linear/896x4864": 4e11}


@pytest.fixture(scope="module")
def peak(tmp_path_factory) -> str:
    if platform.machine() != "x86_64":
        pytest.skip("the loops are written for x86-64")
    built = str(tmp_path_factory.mktemp("peak") / "peak")
    source = BENCH / "kernels" / "peak.cpp"
    subprocess.run(["c++", "-O2", "-std=c++17", "-pthread", str(source), "-o", built], check=True)
    return built


def test_the_peaks_are_measured(peak):
    ran = subprocess.run([peak, "1"], capture_output=True, text=True, check=True)
    peaks = parse_peaks(ran.stdout)
    assert "f32 FMA" in peaks
    assert all(list(rates) == ["1"] and rates["1"] > 1e9 for rates in peaks.values())
    refused = subprocess.run([peak, "many"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr == f"peak: 'many' is not a number of threads; give 1 to {os.cpu_count()}\n"


def test_the_states_of_amx_are_measured_where_there_are_tiles(peak):
    ran = subprocess.run([peak, "--amx"], capture_output=True, text=True)
    if "bf16 tiles" in subprocess.run([peak, "1"], capture_output=True, text=True, check=True).stdout:
        rows = [line.split(" | ") for line in ran.stdout.splitlines() if line.startswith("| ")]
        assert ran.returncode == 0
        assert len(rows) == 2 + 6
        assert all(len(row) == 7 for row in rows)
        return
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "peak: this machine gives out no AMX tiles; run --amx where /proc/cpuinfo lists amx_bf16\n"


def test_the_states_of_amx_take_no_number_of_threads(peak):
    refused = subprocess.run([peak, "--amx", "2"], capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "peak: --amx measures one thread; leave out what else is given\n"


def test_memorys_rate_is_measured(tmp_path):
    source, program = BENCH / "kernels" / "memory_rate.cpp", str(tmp_path / "memory_rate")
    subprocess.run(["c++", "-O2", "-std=c++17", "-pthread", str(source), "-o", program], check=True)
    ran = subprocess.run([program, "1"], capture_output=True, text=True, check=True)
    rates = parse_peaks(ran.stdout)
    assert list(rates) == ["read", "copy"]
    assert all(list(rate) == ["1"] and rate["1"] > 1e8 for rate in rates.values())
    refused = subprocess.run([program, "0"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr == f"memory_rate: '0' is not a number of threads; give 1 to {os.cpu_count()}\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the loops are written for x86-64")
def test_peaks_are_those_of_the_family_that_a_run_is_held_to(tmp_path):
    source, program = BENCH / "kernels" / "peak.cpp", str(tmp_path / "peak")
    subprocess.run(["c++", "-O2", "-std=c++17", "-pthread", str(source), "-o", program], check=True)

    def peaks(kernels: str) -> dict:
        environment = os.environ | {"MEBP_KERNELS": kernels}
        return parse_peaks(subprocess.run([program, "1"], env=environment, capture_output=True, text=True).stdout)

    assert list(peaks("avx2")) == list(peaks("avx512")) == ["f32 FMA"]
    assert list(peaks("avx512_bf16")) == [kind for kind in peaks("") if kind != "bf16 tiles"]


def test_the_machine_is_named():
    cpu = "model name\t: A CPU\nflags\t\t: fpu avx2 amx_bf16 avx512f\nmodel name\t: A CPU\n"
    assert parse_cpu(cpu) == ("A CPU", ["avx2", "avx512f", "amx_bf16"])
    assert parse_cpu(cpu + "cpu family\t: 25\nmodel\t\t: 17\n")[0] == "A CPU 25/17"
    assert parse_cpu("")[0] == "a CPU without a name"
    verbose = "onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with AMX\nonednn_verbose,v1,info,gpu,runtime:none\n"
    assert (parse_onednn(verbose), parse_onednn("")) == ("Intel AVX-512 with AMX", "nothing for bf16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threads", "1000"], "--threads 1000: this process may run on "),
        (["--rounds", "0"], "--rounds 0: is not a number of rounds; give at least 1"),
        (
            ["--markdown", "/dev/null"],
            "speed.py: /dev/null: has no place for the table; put <!-- bench/speed.py: machines",
        ),
        (["--settings", "fast", "--models", "small"], "speed.py: --settings fast: is none of PEFT"),
        (["--from", "/nowhere.json"], "speed.py: [Errno 2] No such file or directory: '/nowhere.json'"),
    ],
)
def test_the_command_refuses(options, message):
    run = subprocess.run([sys.executable, str(BENCH / "speed.py"), *options], capture_output=True, text=True)
    assert run.returncode == 2
    assert message in run.stderr


def test_the_command_names_a_program_that_is_not_built(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MEBP_TOOLS", raising=False)
    monkeypatch.setattr("mebp.tools._PACKAGED", tmp_path / "a" / "b" / "c" / "bin")
    with pytest.raises(mebp.Error) as raised:
        find_bench("peak")
    assert str(raised.value) == (
        "peak is not built; build it with: cmake -B build -DMEBP_BUILD_BENCH=ON && cmake --build build"
    )


DEVICE_CELL = {
    "model": "a model",
    "tokens": 32,
    "answers": {
        MEBP: [{"seconds": 2.0, "peak_bytes": 60_000_000, "device_bytes": 40_000_000}] * 2,
        MLX_LM: [{"seconds": taken, "peak_bytes": 90_000_000, "device_bytes": 80_000_000} for taken in (4.0, 8.0)],
        "PEFT": [{"seconds": 1.0, "peak_bytes": 95_000_000, "device_bytes": 0}] * 2,
    },
}


def test_a_devices_table_has_the_memory_of_each_and_its_ratio_to_mebp():
    device = {"name": "mlx-cpu", "description": "A CPU, MLX 0.32.4", "others": {}, "torch": "cpu"}
    [(make, _)] = DEVICE_TABLES.values()
    header, rule, *rows = make({"device": device, "cells": [DEVICE_CELL]})
    assert header.count("|") == rule.count("|")
    assert rows == [
        "| mlx-cpu: A CPU, MLX 0.32.4 | a model | 32 | mebp | 2.000 | 16 |  |  | 60 | 40 |",
        "| mlx-cpu: A CPU, MLX 0.32.4 | a model | 32 | mlx-lm, LoRA | 6.000 | 5 | 3.00 | 2.00 to 4.00 | 90 | 80 |",
        "| mlx-cpu: A CPU, MLX 0.32.4 | a model | 32 | PEFT, torch on cpu | 1.000 | 32 | 0.50 | 0.50 to 0.50 | 95 |  |",
    ]


def test_what_is_not_installed_is_left_out_in_a_line(monkeypatch):
    monkeypatch.setattr("parts.speed.on_device.NEEDED", {"mlx-lm": ["no_such_module"], "PEFT": ["torch", "peft"]})
    described = describe_device("cpu")
    assert missing(described) == ["mlx-lm is not compared: it is not installed; pip install mlx-lm"]
    assert described["torch"] == "cpu" and described["others"]["PEFT"].startswith("torch ")
    model = Model("a model", {}, Path("weights"), Path("onnx"))
    run = Run([], 2, 2, 1)
    assert list(contenders(model, Path("a.mebp"), 32, run, described)) == [MEBP, "PEFT", CHECKPOINTING]


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(mebp.Error, match="there is no device 'cuda'; choose cpu, mlx, mlx-cpu"):
        describe_device("cuda")
