# SPDX-License-Identifier: Apache-2.0
"""Nothing is loaded from the current folder: neither libraries nor Python's modules that lie there run."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.tools import find_tool, python_module
from support.commands import TIMEOUT, command_line
from support.split import make_text_halves

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("libmebp_mlx.so", "libmebp_grpc.so")
RAN = "ran"

PLANTED = f"""
#include <stdio.h>
__attribute__((constructor)) static void run(void) {{ fclose(fopen("{RAN}", "w")); }}
"""

# Opens libmebp.so by a relative path, changes its folder and looks for all devices.
HOST = """
#include <dlfcn.h>
#include <mebp/mebp.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **given) {
  void *library = dlopen(given[1], RTLD_NOW);
  if (!library || chdir(given[2]) != 0)
    return 1;
  uint32_t (*devices)(void) = (uint32_t (*)(void))dlsym(library, "mebp_device_count");
  mebp_code (*get)(uint32_t, mebp_device_info *, mebp_error *) =
      (mebp_code (*)(uint32_t, mebp_device_info *, mebp_error *))dlsym(library, "mebp_device_get_info");
  for (uint32_t index = 0; index < devices(); ++index) {
    mebp_device_info info;
    mebp_device_info_init(&info);
    if (get(index, &info, NULL) != MEBP_OK)
      return 2;
    printf("%s\\t%s\\n", info.name, info.description);
  }
  return count == 3 ? 0 : 3;
}
"""


def compiled(source: str, target: Path, *options: object) -> Path:
    code = target.with_suffix(".c")
    code.write_text(source)
    subprocess.run(["cc", code, "-o", target, *map(str, options)], check=True)
    code.unlink()
    return target


@pytest.fixture
def stranger(tmp_path) -> Path:
    """A folder with libraries of ours' names, which say that they ran, in each place that a program may look at."""
    folder = tmp_path / "stranger"
    (folder / "lib").mkdir(parents=True)
    planted = compiled(PLANTED, tmp_path / "planted.so", "-shared", "-fPIC")
    for name in LIBRARIES:
        for place in (tmp_path, folder, folder / "lib"):
            shutil.copy(planted, place / name)
    return folder


def run(command: list[object], folder: Path, **environment: str) -> subprocess.CompletedProcess:
    env = os.environ | environment
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT, cwd=folder, env=env)


def checked(done: subprocess.CompletedProcess, stranger: Path) -> str:
    """What a run printed that ran nothing of the stranger's, and died of no signal."""
    assert not list(stranger.parent.rglob(RAN)), done.stderr
    assert done.returncode in (0, 2), done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=["by PATH", "by a relative path", "through a link"])
def tool(request, stranger) -> tuple[str, str]:
    """mebp-run as somebody calls it in the stranger's folder, and PATH."""
    real = Path(find_tool("mebp-run")).resolve()
    link = stranger.parent / "links" / "mebp-run"
    link.parent.mkdir()
    link.symlink_to(real)
    return {
        "by PATH": ("mebp-run", str(real.parent)),
        "by a relative path": (os.path.relpath(real, stranger), os.defpath),
        "through a link": ("mebp-run", f"{link.parent}"),
    }[request.param]


def test_libraries_of_a_program(tool, stranger, bundle, tmp_path):
    name, path = tool
    tokens = tmp_path / "tokens.npy"
    np.save(tokens, np.arange(64, dtype=np.int32).reshape(2, 32))
    # env(1) looks in PATH by itself, and gives the program the bare name, as a shell does.
    begun = ["/usr/bin/env", f"PATH={path}", name]
    training = [*begun, bundle, "--tokens", tokens, "--steps=1", "--device", "mlx-cpu"]
    on_mlx = checked(run(training, stranger), stranger)
    if (ROOT / "build" / "lib" / "libmebp_mlx.so").exists():  # the real one is found, however the program was called
        assert "libmebp_mlx.so is not there" not in on_mlx
    edge = make_text_halves()[1]
    connecting = [*begun, edge, "--tokens", tokens, "--steps=1", "--connect=127.0.0.1:1", "--plain-text"]
    connected = checked(run([*connecting, "--retry-for=1"], stranger), stranger)
    assert "127.0.0.1:1" in connected, connected  # the real one tried
    named = run(connecting, stranger, MEBP_GRPC_LIBRARY="libmebp_grpc.so")
    assert "MEBP_GRPC_LIBRARY is 'libmebp_grpc.so'; give the library's absolute path" in checked(named, stranger)


def test_libraries_of_a_library(stranger, tmp_path):
    """libmebp.so, by a relative path from a folder that is then left for one with the same names."""
    real = ROOT / "build" / "libmebp.so.1"
    own = tmp_path / "own"
    (own / "lib").mkdir(parents=True)
    shutil.copy(real, own / "lib")
    host = compiled(HOST, tmp_path / "host", "-I", ROOT / "runtime" / "include", "-ldl")
    said = checked(run([host, f"lib/{real.name}", stranger], own), stranger)
    assert "cpu\t" in said


def test_libraries_of_python(stranger):
    code = "import mebp; print([mebp.devices()])"
    checked(run([sys.executable, "-P", "-c", code], stranger), stranger)


def plant(folder: Path, *names: str) -> None:
    for name in names:
        (folder / f"{name}.py").write_text(f"open({RAN!r}, 'w')\nraise SystemExit(9)\n")


def test_modules_of_children(stranger):
    """`mebp train MODEL` exports in a process of its own, in the current folder; others compile, merge and compare."""
    plant(stranger, "onnx_ir", "torch", "numpy", "json", "transformers", "mebp", "google", "rich", "typing")
    assert "llama" in checked(run(python_module("mebp", "models", "--json"), stranger), stranger)


def test_every_child_is_started_so():
    package = ROOT / "python" / "mebp"
    texts = {path: ast.parse(path.read_text()) for path in package.rglob("*.py")}
    others = {
        id(each)
        for tree in texts.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.List) and ast.unparse(node).startswith("['llama-server'")
        for each in node.elts
    }
    modules = [path for path, tree in texts.items() for node in ast.walk(tree)
               if isinstance(node, ast.Constant) and node.value == "-m" and id(node) not in others]  # fmt: skip
    assert modules == [package / "tools.py"]


def test_modules_of_python_m(stranger):
    """`python -m mebp`, for which Python itself has imported some before mebp begins."""
    plant(stranger, "onnx_ir", "torch", "numpy", "transformers", "google", "rich", "jinja2")
    assert "llama" in checked(run(command_line("models", "--json"), stranger), stranger)
    assert "outcome" in checked(run(command_line("models"), stranger), stranger)


def test_tools_of_a_relative_folder(stranger, monkeypatch):
    for name in ("mebpc", "mebp-run"):
        (stranger / name).write_text("#!/bin/sh\n")
        (stranger / name).chmod(0o755)
    monkeypatch.chdir(stranger)
    monkeypatch.setenv("MEBP_TOOLS", ".")
    with pytest.raises(mebp.Error, match="MEBP_TOOLS is '.'; give the absolute path of the folder with mebpc"):
        find_tool("mebpc")
    monkeypatch.delenv("MEBP_TOOLS")
    monkeypatch.setenv("PATH", f":{os.environ['PATH']}:.")
    assert Path(find_tool("mebpc")).is_absolute()
