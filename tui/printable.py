"""Remote text made harmless: what may be shown on a terminal of bytes that somebody else wrote."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PICTURES = 0x2400
"""Start of Unicode's Control Pictures: U+2400 + n depicts control character n."""


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(_PICTURES + code)
    return "␡" if code == 0x7F else "\ufffd"


def printable(text: str | bytes) -> str:
    """The text with every control character but tab and newline replaced by a visible one.

    Bytes are decoded as UTF-8, invalid ones replaced. Escape sequences, carriage returns, C1 controls and
    bidirectional overrides lose their effect; nothing else changes.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return _CONTROL.sub(_picture, text)


def one_line(text: str | bytes) -> str:
    """The text as one printable line: line breaks and tabs become blanks."""
    return " ".join(printable(text).split())
