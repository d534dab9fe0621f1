# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` leaves serves a project outside of the tree, also after it was moved."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mebp.data import load_dataset
from mebp.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


def run(*command: object, **more: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    prefix = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", prefix / "first")
    return (prefix / "first").rename(prefix / "moved")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """examples/c, where nothing else of the repository is."""
    return shutil.copytree(ROOT / "examples" / "c", tmp_path_factory.mktemp("outside") / "c")


def library(installed: Path) -> Path:
    (found,) = installed.rglob("libmebp.so.1")
    return found


def train(program: Path, bundle: Path, adapter: Path, **more: object) -> None:
    output = run(program, bundle, adapter, input=" ".join(str(id % 250) for id in range(30)), **more)
    losses = [float(line.split()[-1]) for line in output.splitlines() if line.startswith("step")]
    assert len(losses) == 10 and losses[-1] < losses[0]
    assert (adapter / "adapter_model.safetensors").exists()


def test_cmake_finds_it(installed, project, bundle, tmp_path):
    run("cmake", "-S", project, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "build")
    train(tmp_path / "build" / "train", bundle, tmp_path / "adapter")


def test_pkg_config_finds_it(installed, project, bundle, tmp_path):
    packages = {"PKG_CONFIG_PATH": str(library(installed).parent / "pkgconfig"), "PATH": "/usr/bin:/bin"}
    flags = run("pkg-config", "--cflags", "--libs", "mebp", env=packages).split()
    program = tmp_path / "train"
    run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", project / "train.c", "-o", program, *flags)
    train(program, bundle, tmp_path / "adapter", env={"LD_LIBRARY_PATH": str(library(installed).parent)})


@pytest.fixture(scope="module")
def program_of_the_page(tmp_path_factory) -> Path:
    """A project of the program in docs/c-api.md."""
    folder = tmp_path_factory.mktemp("outside") / "ids"
    folder.mkdir()
    blocks = re.findall(r"```c\n(.*?)```", (ROOT / "docs" / "c-api.md").read_text(), re.DOTALL)
    (program,) = (block for block in blocks if "int main(" in block)
    (folder / "ids.c").write_text(program)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(ids LANGUAGES C)\nfind_package(mebp REQUIRED)\n"
        "add_executable(ids ids.c)\ntarget_link_libraries(ids PRIVATE mebp::mebp_text)\n"
    )
    return folder


def ids_of_the_page(bundle: Path, folder: Path) -> list[int]:
    """What the program is to print."""
    turns = [{"role": "user", "content": "Who trims the wick?"}, {"role": "assistant", "content": "The keeper."}]
    (folder / "turns.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    (row,) = load_dataset(folder / "turns.jsonl", Tokenizer(bundle), 512).rows
    return row.ids.tolist()


def test_cmake_finds_the_library_of_texts(installed, program_of_the_page, bundle, tmp_path):
    run("cmake", "-S", program_of_the_page, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path)
    assert [int(line) for line in run(tmp_path / "ids", bundle).split()] == ids_of_the_page(bundle, tmp_path)


def test_pkg_config_finds_the_library_of_texts(installed, program_of_the_page, bundle, tmp_path):
    folder = library(installed).parent
    packages = {"PKG_CONFIG_PATH": str(folder / "pkgconfig"), "PATH": "/usr/bin:/bin"}
    flags = run("pkg-config", "--cflags", "--libs", "mebp_text", env=packages).split()
    source, program = program_of_the_page / "ids.c", tmp_path / "ids"
    run("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags)
    output = run(program, bundle, env={"LD_LIBRARY_PATH": str(folder)})
    assert [int(line) for line in output.split()] == ids_of_the_page(bundle, tmp_path)
    needed = run("objdump", "-p", program)
    assert "libmebp_text.so" in needed and "libmebp.so" not in needed


def test_it_shows_the_functions_of_its_header_and_nothing_else(installed):
    symbols = run("nm", "--dynamic", "--defined-only", "--format=posix", library(installed))
    shown = {line.split()[0] for line in symbols.splitlines()}
    headers = (installed / "include" / "mebp").glob("*.h")
    header = "".join(path.read_text() for path in headers if path.stem != "grpc")  # which is of another library
    assert "mebp_server_serve" in shown and all(name.startswith("mebp_") and f"{name}(" in header for name in shown)
    assert "mebp_session_step" in shown


def test_it_needs_no_compiler_and_no_python(installed):
    needed = run("objdump", "-p", library(installed))
    assert "libmebp.so.1" in needed and not any(name in needed for name in ("LLVM", "MLIR", "python"))


def test_nothing_in_it_names_this_machine(installed):
    for path in installed.rglob("*"):
        if path.is_file() and path.suffix in (".cmake", ".pc", ".h"):
            assert str(ROOT) not in path.read_text()
