# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/debugging.md runs, one after the other as on the page."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mebp.tools import find_tool
from support.commands import TIMEOUT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "debugging.md"


def test_its_commands_run(bundle, data, tmp_path):
    shutil.copytree(bundle.parent, tmp_path, dirs_exist_ok=True)
    tools = Path(find_tool("mebpc")).parent
    (tmp_path / "tools").symlink_to(tools)
    script = tmp_path / "mebp"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mebp "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), str(tools), os.environ["PATH"]])
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 12
    seen = {}
    for line in lines:
        run = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert run.returncode == 0, (line, run.stderr)
        seen[line] = run.stdout + run.stderr
    printed = "\n".join(seen.values())
    assert "IR Dump After AddLora" in printed and "IR Dump After DifferentiateBlocks" in printed
    assert list((tmp_path / "passes").rglob("*tile-loss.mlir")) and "nn.linear" in (tmp_path / "nn.mlir").read_text()
    assert "exec.kernel" in (tmp_path / "exec.mlir").read_text()
    assert "fastest.npz against reference.npz" in printed
