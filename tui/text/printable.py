"""Make remote text harmless for a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"["
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls
    r"\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff"
    r"\ud800-\udfff"  # surrogates
    r"]"
)
"""Unicode's categories Cc, Cf, Cs, Zl and Zp: characters that a terminal obeys or does not show.

Exceptions are tab, newline, the joiners that scripts and emoji need (U+200C, U+200D), and visible number signs.
"""
_PICTURES = 0x2400
"""The start of Unicode's Control Pictures: U+2400 + n depicts control character n."""


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(_PICTURES + code)
    return "␡" if code == 0x7F else "\ufffd"


def printable(text: str | bytes) -> str:
    """Replace every control and format character, except tab and newline, by a visible one.

    Bytes are decoded as UTF-8, with invalid ones replaced. Escape sequences, carriage returns, C1 controls and
    bidirectional overrides lose their effect; nothing else changes.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return _CONTROL.sub(_picture, text)


def escape_controls(document: str) -> str:
    """Return a JSON document with what `printable` replaces as JSON's escapes: its values do not change."""
    return document if document.isascii() else _CONTROL.sub(_escape, document)


def _escape(match: re.Match[str]) -> str:
    digits = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{digits[first : first + 4]}" for first in range(0, len(digits), 4))


def one_line(text: str | bytes) -> str:
    """Return the text as one printable line; line breaks and tabs become blanks."""
    return " ".join(printable(text).split())


def format_count(count: int, noun: str) -> str:
    """Return `1 core` or `1,024 cores`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
