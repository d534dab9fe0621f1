# SPDX-License-Identifier: Apache-2.0
"""Tables as a terminal and a notebook show them."""

from xml.etree import ElementTree

from mebp.tables import Table, megabytes


def test_numbers_stand_at_the_right():
    table = Table("sizes", ["what", "MB", ""], [["one", "1.50", "a note"], ["eleven", "11.00", ""], ["none", "", "x"]])
    assert str(table).split("\n") == [
        "sizes",
        "  what       MB",
        "  one      1.50  a note",
        "  eleven  11.00",
        "  none           x",
    ]


def test_a_table_without_names_or_rows():
    assert str(Table("title", ["", ""], [["made by", "mebpc"]])) == "title\n  made by  mebpc"
    assert str(Table("empty", ["what", "MB"], [])) == "empty\n  what  MB"


def test_html_is_well_formed_and_escaped():
    found = ElementTree.fromstring(Table("a < b", ["<name>", "MB"], [["x & y", "1.00"]])._repr_html_())
    assert found.find("caption/b").text == "a < b"
    assert [cell.text for cell in found.iter("th")] == ["<name>", "MB"]
    assert [(cell.text, cell.get("style")) for cell in found.iter("td")] == [
        ("x & y", "text-align: left"),
        ("1.00", "text-align: right"),
    ]


def test_megabytes_are_of_a_million_bytes():
    assert megabytes(1_234_567_890) == "1,234.57"
