from hypothesis import given
from hypothesis import strategies as st

from tui.printable import one_line, printable


@given(st.text() | st.binary())
def test_nothing_that_a_terminal_obeys_is_left(text: str | bytes) -> None:
    shown = printable(text)
    assert all(character in "\t\n" or ord(character) >= 0x20 for character in shown)
    assert not any(0x7F <= ord(character) <= 0x9F for character in shown)


def test_escape_sequences_are_seen_but_not_obeyed() -> None:
    assert printable("\x1b[31mred\x1b]0;title\x07") == "␛[31mred␛]0;title␇"


def test_words_are_left_as_they_are() -> None:
    assert printable("loss=0.1 [bold]日本語 ü\tok\n") == "loss=0.1 [bold]日本語 ü\tok\n"


def test_one_line_stays_one_line() -> None:
    assert one_line(b"a\nb\r\n\tc\xff") == "a b␍ c\ufffd"
