# SPDX-License-Identifier: Apache-2.0
"""runtime/exec/link_kernels.py: which kernels a build for some bundles has, what it refuses, and what the kernel tables
make of its header."""

import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "runtime" / "exec" / "link_kernels.py"
COMPILER = shutil.which("c++") or shutil.which("g++")


MAJOR = 2  # of format/container.h


def message(*fields: tuple[int, bytes | int]) -> bytes:
    """Protobuf's bytes of a message: of each field its number, and its content or a number below 128."""
    out = b""
    for number, content in fields:
        if isinstance(content, int):
            out += bytes([number << 3, content])
        else:
            out += bytes([number << 3 | 2, len(content) & 0x7F | 0x80, len(content) >> 7]) + content
    return out


# The fields' numbers are those of format/program.proto.
def kernel(name: str) -> bytes:
    return message((1, message((1, name.encode()), (2, b"\0\1"), (4, message((1, b"silu"))))))


def loop(*steps: bytes) -> bytes:
    return message((2, message((1, 1), (4, 32), *[(6, step) for step in steps])))


def program(*steps: bytes) -> bytes:
    return message((1, b"relu"), *[(5, step) for step in steps], (6, 1))


def make_bundle(folder: Path, *programs: bytes, major: int = MAJOR) -> Path:
    payload = message((1, b"gelu"), *[(5, each) for each in programs])
    head = struct.pack("<4sHHQI", b"MEBP", major, 0, len(payload), zlib.crc32(payload))
    folder.mkdir()
    (folder / "program.pb").write_bytes(head + struct.pack("<I", zlib.crc32(head)) + payload)
    return folder


def run(*arguments: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def names(header: Path) -> list[str]:
    return re.findall(r'^ +"(\w+)"', header.read_text(), re.MULTILINE)


def test_it_lists_what_the_bundles_call_and_linear(tmp_path: Path) -> None:
    first = make_bundle(tmp_path / "a.mebp", program(kernel("rope"), loop(kernel("add"), loop(kernel("fill")))))
    second = make_bundle(tmp_path / "b.mebp", program(), program(kernel("rope"), kernel("layer_norm")))

    done = run(tmp_path / "new" / "linked.h", first, second)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"MEBP_BUNDLES: 5 of \d\d kernels\n", done.stdout)
    assert names(tmp_path / "new" / "linked.h") == ["add", "fill", "layer_norm", "linear", "rope"]


def test_without_a_bundle_it_lists_every_kernel(tmp_path: Path) -> None:
    assert run(tmp_path / "linked.h").stdout == ""
    page = (ROOT / "docs" / "kernels.md").read_text()
    table = page[page.index("| kernel | operands |") :].partition("\n\n")[0].splitlines()[2:]
    documented = [name for row in table for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert names(tmp_path / "linked.h") == sorted(documented)


def test_a_list_that_stays_is_not_written_again(tmp_path: Path) -> None:
    header, bundle = tmp_path / "linked.h", make_bundle(tmp_path / "a.mebp", program(kernel("rope")))
    run(header, bundle)
    os.utime(header, (1, 1))
    run(header, bundle)
    assert header.stat().st_mtime == 1
    run(header)
    assert header.stat().st_mtime != 1


def spoil(folder: Path) -> Path:
    file = folder / "program.pb"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    return folder


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


REFUSED = {
    "missing": (
        lambda path: path,
        "no bundle there (No such file or directory: program.pb); name a folder that mebpc has made",
    ),
    "a file": (
        lambda path: write(path, b"MEBP"),
        "is not a bundle (Not a directory: program.pb); name a folder that mebpc has made",
    ),
    "another folder": (
        lambda path: write(path / "other", b"").parent,
        "is not a bundle (No such file or directory: program.pb); name a folder that mebpc has made",
    ),
    "another file": (
        lambda path: write(path / "program.pb", b"ONNX" * 10).parent,
        "program.pb is not a compiled program; compile the bundle again",
    ),
    "damaged": (lambda path: spoil(make_bundle(path)), "program.pb is damaged; compile the bundle again"),
    "cut within": (
        lambda path: make_bundle(path, b"\x2a\x85"),
        "program.pb is damaged; compile the bundle again",
    ),
    "newer": (
        lambda path: make_bundle(path, major=MAJOR + 1),
        f"has format version {MAJOR + 1}, this mebp has {MAJOR}; compile it again",
    ),
    "unknown": (
        lambda path: make_bundle(path, program(kernel("rope"), kernel("sharpen"))),
        "calls the kernel 'sharpen', which this mebp does not have; build a newer one, or compile the bundle again",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_bundle_of_ours_is_refused_by_its_name(what: str, tmp_path: Path) -> None:
    make, refusal = REFUSED[what]
    good, bad = make_bundle(tmp_path / "good.mebp", program(kernel("rope"))), make(tmp_path / "bad.mebp")

    done = run(tmp_path / "linked.h", good, bad)

    assert (done.returncode, done.stderr) == (2, f"{bad}: {refusal}\n")
    assert not (tmp_path / "linked.h").exists()


TABLE = """
#include "runtime/exec/kernel_table.h"
using Kernel = void (*)();
static void rope() {}
static void gelu() {}
constexpr mebp::NamedKernelOf<Kernel> entries[] = {{"rope", rope}, {"gelu", gelu}};
constexpr mebp::KernelTableOf<Kernel> table = entries;
static_assert(!entries[1].kernel);
static_assert(mebp::findKernelIn<Kernel>({&table}, "rope") == rope);
static_assert(!mebp::findKernelIn<Kernel>({&table}, "gelu"));
static_assert(mebp::isLinked("rope") && !mebp::isLinked("gelu") && !mebp::isLinked("rop"));
"""


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
def test_a_table_has_only_what_is_listed(tmp_path: Path) -> None:
    run(tmp_path / "runtime/exec/linked_kernels.h", make_bundle(tmp_path / "a.mebp", program(kernel("rope"))))
    source = write(tmp_path / "table.cpp", TABLE.encode())

    command = [COMPILER, "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", f"-I{ROOT}", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
