# SPDX-License-Identifier: Apache-2.0
"""Options that only some optimizers have, of which the runtime has the table: whatever takes them has all of them."""

import re
from itertools import combinations

import pytest

import mebp
from mebp.cli.main import make_parsers
from mebp.compile_options import compile_option_kinds, flag
from mebp.session_options import optimizer_option_kinds
from mebp.shared_options import shared_options
from mebp.training.config import read_config
from mebp.training.objective_options import objective_kinds
from mebp.training.options import option_kinds
from mebp.training.request import Request, request_kinds

VALUES = {float: (0.25, "0.25"), int: (3, "3"), tuple: ((0.25, 0.5), "0.25,0.5"), str: ("svd", "svd")}


def test_their_types_are_those_of_the_command_line():
    for name, kind in optimizer_option_kinds().items():
        value = shared_options()[flag(name)[2:]].value
        assert value == {float: "X", int: "N", tuple: "X,Y", str: "HOW"}[kind], name


def test_no_name_has_two_meanings():
    for one, other in combinations([option_kinds(), optimizer_option_kinds(), objective_kinds()], 2):
        assert not one.keys() & other.keys()
    assert not optimizer_option_kinds().keys() & compile_option_kinds().keys()


@pytest.mark.parametrize("name", optimizer_option_kinds())
def test_each_way_to_give_one(tmp_path, name):
    value, text = VALUES[optimizer_option_kinds()[name]]
    parsed = make_parsers()["train"].parse_args([flag(name), text])
    assert getattr(parsed, name) in (value, text)
    (tmp_path / "run.yaml").write_text(f"{name}: {text}\n")
    written = read_config(tmp_path / "run.yaml", request_kinds())
    assert written == {name: value}
    given = {"bundle": tmp_path / "a.mebp", "data": tmp_path / "data", **written}
    assert Request.of(given).training.optimizer_options == {name: value}


def test_a_session_lists_them():
    assert not [
        name for name in optimizer_option_kinds() if not re.search(rf"\b{name}\b", mebp.Session.__init__.__doc__)
    ]
