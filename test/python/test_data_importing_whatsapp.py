# SPDX-License-Identifier: Apache-2.0
"""What WhatsApp exports on iOS and Android, in the languages of phones."""

import pytest

from mebp.data.importing import import_chats
from mebp.data.importing.chats import WITHOUT_TEXT, Chat
from mebp.data.importing.whatsapp import begins, read
from mebp.errors import Error

HOUR = 3600


def chat_of(*lines: str) -> Chat:
    (chat,) = read("_chat.txt", enumerate((f"{line}\n" for line in lines), 1))
    return chat


def said(*lines: str) -> list[tuple[str, str]]:
    return [(message.author, message.text) for message in chat_of(*lines).messages if message.text]


def hours(*lines: str) -> list[float]:
    times = [message.time for message in chat_of(*lines).messages]
    return [(time - times[0]) / HOUR for time in times]


@pytest.mark.parametrize(
    "beginning",
    [
        "[31/12/2024, 21:05:09] ",
        "[31.12.24, 21:05:09] ",
        "\u200e[12/31/24, 9:05:09\u202fPM] ",
        "\ufeff[2024-12-31, 21:05:09] ",
        "[31.12.2024 klo 21.05.09] ",
        "[31/12/24, 9:05:09 p.\u00a0m.] ",
        "31/12/2024, 21:05 - ",
        "12/31/24, 9:05 PM - ",
        "12/31/24, 9:05\u202fpm - ",
        "31.12.24, 21:05 - ",
        "31-12-2024 21:05 - ",
        "2024-12-31 21:05 - ",
        "2024/12/31, 21:05 – ",
    ],
)
def test_dates_of_many_phones(beginning):
    assert begins(beginning + "Ana: Hi")
    lines = [
        f"{beginning}Ana: Hi",
        "",
        "there: you",
        f"{beginning}Ben Ray: Hello",
        f"{beginning}\u200eNobody said this",
    ]
    assert said(*lines) == [("Ana", "Hi\n\nthere: you"), ("Ben Ray", "Hello")]
    assert chat_of(*lines).messages[0].time % (24 * HOUR) // 60 == 21 * 60 + 5


@pytest.mark.parametrize(
    "line", ["", "Hi", "Ana: Hi", "31/12/2024", "[1]", '[{"mapping": 1}]', "31/12/24, 21:05 Ana: a"]
)
def test_what_does_not_begin_so(line):
    assert not begins(line)


def test_the_order_of_day_and_month():
    assert hours("1/2/24, 9:00 - Ana: a", "1/13/24, 9:00 - Ana: b") == [0, 11 * 24]
    assert hours("1/2/24, 9:00 - Ana: a", "13/2/24, 9:00 - Ana: b") == [0, 12 * 24]
    # Where both are possible, time does not run backwards.
    assert hours("9/1/24, 9:00 - Ana: a", "8/2/24, 9:00 - Ana: b") == [0, 30 * 24]
    assert hours("2/9/24, 9:00 - Ana: a", "3/8/24, 9:00 - Ana: b") == [0, 28 * 24]


def test_noon_and_midnight():
    assert hours("1/2/24, 12:00 AM - A: a", "1/2/24, 1:00 AM - A: b", "1/2/24, 12:30 PM - A: c") == [0, 1, 12.5]


def test_a_day_that_is_none_is_refused():
    with pytest.raises(Error) as caught:
        chat_of("13/2/24, 9:00 - Ana: a", "2/13/24, 9:00 - Ana: b")
    assert str(caught.value) == (
        "_chat.txt:2: has the date 2/13/24, which is no day where the dates before it are; export the chat again, or "
        "remove it from the file"
    )
    with pytest.raises(Error, match="1: has the date 99/99/24"):
        chat_of("99/99/24, 9:00 - Ana: a")


def test_names():
    assert said("[1/2/24, 9:05:00] ~\u202fAna: Hi")[0][0] == "Ana"
    assert said("[1/2/24, 9:05:00] +1 (000) 000-0000: Hi")[0][0] == "+1 (000) 000-0000"
    assert said("1/2/24, 9:05 - \u202a+1\u00a0000\u00a0000\u202c: Hi")[0][0] == "+1 000 000"
    assert said("[1/2/24, 9:05:00] \u200eAna 🎈: Hi: you")[0] == ("Ana 🎈", "Hi: you")


@pytest.mark.parametrize(
    "text",
    [
        "\u200eimage omitted",
        "\u200eBild weggelassen",
        "\u200e<attached: 00000001-PHOTO-2019-01-01-12-00-00.jpg>",
        "\u200ePOLL:\n\u200eOPTION: Yes (2 votes)",
        "Report.pdf • \u200e2 pages \u200e<attached: 00000001-Report.pdf>",
        "<Media omitted>",
        "<Medien ausgeschlossen>",
        "\u200eIMG-20190101-WA0000.jpg (file attached)",
        "IMG-20190101-WA0000.jpg (Datei angehängt)",
        "Ana Ray.vcf (file attached)",
        "This message was deleted",
        "You deleted this message.",
        "null",
        "",
    ],
)
def test_what_is_no_text_is_left_out(text):
    chat = chat_of(*f"1/2/24, 9:05 - Ana: {text}".split("\n"), "1/2/24, 9:06 - Ben: Hello")
    assert [message.text for message in chat.messages] == ["", "Hello"]
    assert chat.left_out == {WITHOUT_TEXT: 1}


def test_text_beside_a_picture_or_an_edit_is_kept():
    assert said("1/2/24, 9:05 - Ana: \u200eIMG-20190101-WA0000.jpg (file attached)", "Our cat") == [("Ana", "Our cat")]
    assert said("[1/2/24, 9:05:00] Ana: Our cat \u200e<attached: 1-PHOTO.jpg>") == [("Ana", "Our cat")]
    assert said("1/2/24, 9:05 - Ana: I saw it <This message was edited>") == [("Ana", "I saw it")]
    assert said("[1/2/24, 9:05:00] Ana: I saw it \u200e<Bearbeitet>") == [("Ana", "I saw it")]
    assert said("1/2/24, 9:05 - Ana: a <b> c") == [("Ana", "a <b> c")]


def test_lines_of_the_app_are_nobodys():
    assert said("1/2/24, 9:04 - Messages are encrypted.", "Learn more", "1/2/24, 9:05 - Ana: Hi") == [("Ana", "Hi")]


def test_a_whole_file(tmp_path):
    path = tmp_path / "_chat.txt"
    path.write_bytes(
        "\u200e[1/2/24, 9:04:00] Trip: \u200eMessages are encrypted.\r\n[1/2/24, 9:05:00] Ana: Hi\nyou\r\n"
        "[1/2/24, 9:06:00] Cy: Ho\r\n[1/2/24, 9:07:00] Ben: Hello\r\n[1/2/24, 16:00:00] Ben: Still here\r\n".encode()
    )
    found = import_chats(path, tmp_path / "chat.jsonl", "Ben")
    assert (tmp_path / "chat.jsonl").read_text() == (
        '{"messages": [{"role": "user", "content": "Ana: Hi\\nyou\\nCy: Ho"}, '
        '{"role": "assistant", "content": "Hello"}]}\n'
    )
    assert found.said_left_out() == ["1 message without text", "1 conversation in which Ben answers nobody"]
    path.write_bytes("1/2/24, 9:04 - Ana: Hi\n1/2/24, 9:04 - Ben: \xff".encode("latin-1"))
    with pytest.raises(Error, match="_chat.txt:2: is not UTF-8 at byte"):
        import_chats(path, tmp_path / "other.jsonl", "Ben")
