# SPDX-License-Identifier: Apache-2.0
"""scripts/check_includes.py: what it finds in small trees."""

from support.scripts import ROOT, load

SCRIPT = "scripts/check_includes.py"


def problems(root, files, exceptions=frozenset()):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return load(SCRIPT).check(root, exceptions)


def test_an_edge_that_is_not_allowed_is_named(tmp_path):
    files = {"compiler/plan/a.cpp": '#include "runtime/core/b.h"\n', "runtime/core/b.h": '#include "format/c.h"\n'}
    assert problems(tmp_path, files) == [
        "compiler/plan/a.cpp:1 includes runtime/core/b.h: compiler/plan may not include runtime/core"
    ]


def test_an_exception_is_allowed_until_it_is_gone(tmp_path):
    exception = {("compiler/plan", "runtime/core")}
    files = {"compiler/plan/a.cpp": '#include "runtime/core/b.h"\n'}
    assert problems(tmp_path, files, exception) == []
    files = {"compiler/plan/a.cpp": ""}
    assert problems(tmp_path, files, exception) == ["the exception compiler/plan -> runtime/core is gone: take it out"]


def test_folders_that_include_each_other_are_found(tmp_path):
    files = {
        "compiler/emit/a.cpp": '#include "compiler/plan/b.h"\n',
        "compiler/plan/b.h": '#include "compiler/pipeline/c.h"\n',
        "compiler/pipeline/c.h": '#include "compiler/emit/d.h"\n',
    }
    assert problems(tmp_path, files)[-1] == (
        "folders include each other: compiler/emit -> compiler/plan -> compiler/pipeline -> compiler/emit"
    )


def test_files_that_include_each_other_are_found(tmp_path):
    files = {
        "compiler/plan/a.h": '#include "compiler/plan/b.h"\n',
        "compiler/plan/b.h": "",
        "compiler/plan/b.cpp": '#include "compiler/plan/a.h"\n',
        "runtime/include/mebp/mebp.h": '#include "mebp/part.h"\n',  # allowed there
        "runtime/include/mebp/part.h": '#include "mebp/mebp.h"\n',
    }
    assert problems(tmp_path, files) == [
        "files include each other: compiler/plan/a -> compiler/plan/b -> compiler/plan/a"
    ]


def test_a_long_file_is_named(tmp_path):
    assert problems(tmp_path, {"python/mebp/long.py": "x = 1\n" * 501}) == [
        "python/mebp/long.py: has 501 lines, more than 500"
    ]


def test_this_tree_passes():
    module = load(SCRIPT)
    assert module.check(ROOT) == []
