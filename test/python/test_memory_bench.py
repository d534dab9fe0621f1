# SPDX-License-Identifier: Apache-2.0
"""What bench/memory.py counts, looked at from outside, and the shapes that it measures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from parts.memory.optimizers import OptimizerCell
from parts.memory.others import OtherCell
from parts.memory.plot import column, draw, row_names
from parts.memory.report import optimizers_table, others_table
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.process_memory import Memory, memory_of, parse_smaps, watch
from parts.shapes import SHAPES, VOCABULARY

from support.held import HOLD

MIB = 1 << 20
SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "memory.py"
SMAPS = """\
55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0                          [heap]
Rss:                 100 kB
Anonymous:           100 kB
7f0000000000-7f0000100000 rw-p 00001000 fd:00 12                         /lib/of: two words.so
Rss:                  40 kB
Anonymous:             8 kB
7f0000200000-7f0000300000 r--s 00000000 fd:00 13                         /weights.bin
Rss:                5000 kB
Anonymous:             0 kB
7f0000400000-7f0000500000 rw-s 00000000 fd:00 14                         /state.bin
Rss:                 300 kB
Anonymous:             0 kB
VmFlags: rd wr sh mr mw me ms
"""
# Touches 64 MiB of its own, 32 MiB of a writable shared map, and reads another 16 MiB.
PROGRAM = """
import mmap, sys
files = open(sys.argv[1], "r+b"), open(sys.argv[2], "rb")
own = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
written = mmap.mmap(files[0].fileno(), 32 << 20)
read = mmap.mmap(files[1].fileno(), 16 << 20, prot=mmap.PROT_READ)
for start in range(0, 64 << 20, 4096): own[start] = 1
for start in range(0, 32 << 20, 4096): written[start] = 1
print(sum(read[start] for start in range(0, 16 << 20, 4096)), flush=True)
"""


def test_each_mapping_counts_as_what_it_is():
    assert parse_smaps(SMAPS) == Memory(written=408 * 1024, clean=(32 + 5000) * 1024)


def test_the_highest_of_each_figure_stays():
    assert Memory(1, 5).highest(Memory(3, 2)) == Memory(3, 5)


def test_a_process_is_seen_from_outside(tmp_path, pipe):
    for name, size in (("written", 32), ("read", 16)):
        (tmp_path / name).write_bytes(bytes(size * MIB))
    command = [sys.executable, "-c", PROGRAM + HOLD, str(tmp_path / "written"), str(tmp_path / "read"), str(pipe)]
    base, _ = watch([sys.executable, "-c", "import mmap, sys" + HOLD, str(pipe)])
    seen, output = watch(command)
    assert output == "0\n"
    assert abs(seen.written - base.written - 96 * MIB) < 2 * MIB
    assert abs(seen.clean - base.clean - 16 * MIB) < 2 * MIB


def test_a_failing_command_says_why():
    with pytest.raises(RuntimeError, match="^no such luck$"):
        watch([sys.executable, "-c", "import sys; sys.exit('first\\nno such luck')"])
    with pytest.raises(RuntimeError, match="ended with status 3"):
        watch([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_process_that_has_ended_has_no_memory():
    with pytest.raises(OSError):
        memory_of(2**22 + 1)  # beyond the largest that Linux gives


PARAMETERS = {"Qwen2.5-0.5B": 494_032_768, "Qwen2.5-1.5B": 1_543_714_304, "Qwen2.5-3B": 3_085_938_688}


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_are_the_published_ones(name, tmp_path):
    SHAPES[name].write_config(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    hidden, intermediate = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    attention = 2 * hidden * hidden + 2 * hidden * keys + hidden + 2 * keys
    layer = attention + 3 * hidden * intermediate + 2 * hidden
    assert config["num_hidden_layers"] * layer + hidden + VOCABULARY * hidden == PARAMETERS[name]


def test_a_table_goes_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a.py -->\nold\n<!-- end -->\nbetween\n<!-- b.py -->\nkept\n<!-- end -->\n")
    write_between_marks(page, "a.py", ["| new |", "| --- |"])
    assert page.read_text() == (
        "before\n<!-- a.py -->\n| new |\n| --- |\n<!-- end -->\nbetween\n<!-- b.py -->\nkept\n<!-- end -->\n"
    )
    assert read_between_marks(page, "a.py") == ["| new |", "| --- |"]
    write_between_marks(page, "a.py", [])
    assert read_between_marks(page, "a.py") == []
    for use in (lambda: write_between_marks(page, "c.py", []), lambda: read_between_marks(page, "c.py")):
        with pytest.raises(ValueError, match="has no place for the table; put <!-- c.py --> and <!-- end -->"):
            use()


def test_rows_that_are_not_measured_anew_stay():
    head = ["| shape | tokens | plan |", "| --- | ---: | ---: |"]
    old = [*head, "| a | 256 | 1 |", "| a | 1,024 | 2 |"]
    new = [*head, "| b | 256 | 4 |", "| a | 256 | 3 |"]
    merged = [*head, "| a | 256 | 3 |", "| a | 1,024 | 2 |", "| b | 256 | 4 |"]
    assert merge_tables(old, new, keys=2) == merged
    assert merge_tables([], new, keys=2) == new
    assert merge_tables(["| shape | tokens | other |", head[1], "| a | 1 | 1 |"], new, keys=2) == new


def test_the_picture_has_what_the_tables_have(tmp_path):
    plans = [
        "| shape | tokens | plan | at every kernel call | MeSP |",
        "| --- |" + " ---: |" * 4,
        "| Qwen2.5-3B | 1,024 | 1,165.9 | 165.1 | 925.8 |",
    ]
    assert (row_names(plans), column(plans, "plan")) == (["Qwen2.5-3B, 1,024 tokens"], [1165.9])
    others = ["| system | shape | tokens | polled |", "| --- | --- | ---: | ---: |", "| PEFT | Other | 256 | 1.0 |"]
    draw(plans, others, tmp_path / "without.png")
    draw(plans, [*others, "| StreamBP | Qwen2.5-3B | 1,024 | 2,000.0 |"], tmp_path / "with.png")
    assert (tmp_path / "without.png").read_bytes() != (tmp_path / "with.png").read_bytes()


def test_a_row_has_a_cell_for_each_column():
    memory = Memory(1_234_500_000, 5_000_000)
    other = OtherCell("PEFT", "Qwen2.5-0.5B", 1024, memory)
    assert others_table([other])[-1] == "| PEFT | Qwen2.5-0.5B | 1,024 | 1,234.5 | 5.0 |"
    optimizer = OptimizerCell("Qwen2.5-0.5B", 256, "adamw", "nothing", 74_500_000, 73_600_000, memory, 0)
    assert optimizers_table([optimizer])[-1] == (
        "| Qwen2.5-0.5B | 256 | adamw | nothing | 74.5 | 73.6 | 1,234.5 | 0.0 |"
    )
    for header, rule, row in (others_table([other]), optimizers_table([optimizer])):
        assert header.count("|") == rule.count("|") == row.count("|")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--streambp", "/nowhere"], "--streambp /nowhere: is not a checkout of StreamBP; it has no src/streambp"),
        (["--parts", "everything"], "invalid choice: 'everything'"),
    ],
)
def test_the_command_refuses(options, message):
    run = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True)
    assert run.returncode == 2
    assert message in run.stderr


def test_streambp_needs_its_own_python(tmp_path):
    (tmp_path / "src" / "streambp").mkdir(parents=True)
    (tmp_path / "src" / "streambp" / "stream_model.py").touch()
    run = subprocess.run([sys.executable, str(SCRIPT), "--streambp", str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 2
    assert "--streambp needs --streambp-python: StreamBP asks for an older transformers" in run.stderr
