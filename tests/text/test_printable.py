import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.text.printable import escape_controls, format_count, one_line, printable


@given(st.text() | st.binary())
def test_no_control_character_is_left(text: str | bytes) -> None:
    shown = printable(text)
    assert all(character in "\t\n" or ord(character) >= 0x20 for character in shown)
    assert not any(0x7F <= ord(character) <= 0x9F for character in shown)


VISIBLE_FORMAT_CHARACTERS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Number signs: format characters that are drawn."""


def test_of_invisible_characters_only_the_joiners_of_scripts_are_left() -> None:
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    everything = map(chr, range(sys.maxunicode + 1))
    left = "".join(one for one in everything if unicodedata.category(one) in unseen and printable(one) == one)
    assert set(left) - set(VISIBLE_FORMAT_CHARACTERS) == {"\t", "\n", "\u200c", "\u200d"}


@pytest.mark.parametrize("text", ["\u061c", "\ufeff", "\U000e0041", "\U000e007f", "\u2066", "\u200b", "\u00ad"])
def test_a_character_that_hides_or_reverses_text_is_replaced(text: str) -> None:
    assert printable(f"a{text}b") == "a\ufffdb"
    assert one_line(f"a{text}b".encode()) == "a\ufffdb"


def test_characters_that_scripts_and_emoji_need_are_left() -> None:
    text = "👩\u200d🔬 می\u200cخواهم é\u0301 ☎\ufe0f \u00a0"
    assert printable(text) == text


def test_escape_sequences_are_shown_as_text() -> None:
    assert printable("\x1b[31mred\x1b]0;title\x07") == "␛[31mred␛]0;title␇"


def test_a_json_document_escapes_what_a_terminal_obeys_and_keeps_its_values() -> None:
    values = ["\x9b31m", "\u202e", "\U000e0041", "\ud800", "\x1b", "日本語 ü 👩\u200d🔬"]
    document = escape_controls(json.dumps(values, ensure_ascii=False, indent=1))
    assert printable(document) == document
    assert json.loads(document) == values
    assert values[-1] in document


def test_words_are_left_as_they_are() -> None:
    assert printable("loss=0.1 [bold]日本語 ü\tok\n") == "loss=0.1 [bold]日本語 ü\tok\n"


def test_one_line_stays_one_line() -> None:
    assert one_line(b"a\nb\r\n\tc\xff") == "a b␍ c\ufffd"


@pytest.mark.parametrize(("count", "text"), [(0, "0 cores"), (1, "1 core"), (2, "2 cores"), (1024, "1,024 cores")])
def test_a_count_has_its_noun_in_singular_or_plural(count: int, text: str) -> None:
    assert format_count(count, "core") == text
