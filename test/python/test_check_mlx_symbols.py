# SPDX-License-Identifier: Apache-2.0
"""How scripts/check_mlx_symbols.py compares symbols. That the wheels have them is a step of scripts/test.sh."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_mlx_symbols import asked_of_mlx, exported, plain  # noqa: E402

SOURCE = """
#include <string>
namespace mlx::core { void take(const std::string &, unsigned long); std::string name(); void other(); }
"""


@pytest.mark.parametrize(
    ("gnu", "apple"),
    [
        # void mlx::core::f(std::string), and a function that returns one, which libstdc++ tags
        (
            "_ZN3mlx4core1fENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "__ZN3mlx4core1fENSt3__112basic_stringIcNS1_11char_traitsIcEENS1_9allocatorIcEEEE",
        ),
        ("_ZN3mlx4core4nameB5cxx11Ev", "__ZN3mlx4core4nameEv"),
        ("_ZN3mlx4core4seedEm", "__ZN3mlx4core4seedEy"),  # of a uint64_t
        ("_ZN3mlx4core5arrayC1Ev", "__ZN3mlx4core5arrayC1Ev"),
    ],
)
def test_both_standard_libraries_name_a_symbol_alike(gnu: str, apple: str) -> None:
    assert plain([gnu]) == plain([apple])
    assert plain([gnu])[0].startswith("mlx::core::")


def test_other_parameters_are_another_symbol() -> None:
    assert plain(["_ZN3mlx4core1fEi"]) != plain(["__ZN3mlx4core1fEl"])


def library(folder: Path, name: str, code: str) -> Path:
    (folder / f"{name}.cpp").write_text(SOURCE + code)
    file = folder / f"{name}.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", file, folder / f"{name}.cpp"], check=True)
    return file


def test_what_one_library_asks_and_the_other_lacks(tmp_path: Path) -> None:
    asks = library(tmp_path, "asks", "void run() { mlx::core::take(mlx::core::name(), 1); mlx::core::other(); }")
    has = library(tmp_path, "has", 'std::string mlx::core::name() { return ""; } void mlx::core::other() {}')
    wanted = asked_of_mlx(asks)
    assert len(wanted) == 3
    assert [name.split("(")[0] for name in wanted - exported(has)] == ["mlx::core::take"]
