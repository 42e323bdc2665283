"""Parse untrusted JSON, of bounded size, depth and numbers. Anything else raises ValueError."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from tui.text.numbers import MOST_INTEGER

MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of a document; the record of a pod with 16,384 workers has a tenth of this."""
MOST_DEPTH = 32
"""Most levels of nested lists and objects; the project's documents have four."""
_TOO_DEEP = f"lists and objects more than {MOST_DEPTH} deep"
_MOST_DIGITS = len(str(-MOST_INTEGER))


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or abs(value := int(digits)) > MOST_INTEGER:
        raise ValueError(f"a number of {len(digits)} digits")
    return value


_DECODER = json.JSONDecoder(parse_int=_integer)
"""Made once, because `json.loads` with `parse_int` would make one per call."""


def parse_json(data: bytes | str) -> Any:
    """Parse a JSON document. Raises ValueError for one that is invalid, too large or too deep."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"a document of {len(data)} bytes, more than {MOST_BYTES}")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8", "surrogatepass")
        document = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MOST_DEPTH:
        deque(_levels(document), maxlen=0)
    return document


def parse_json_lines(lines: Sequence[bytes]) -> list[Any]:
    """Parse lines of one JSON document each, leaving out those that are invalid, too large or too deep.

    The lines are parsed together if each is one document, with too few brackets to be too deep.
    """
    if all(line.count(b"[") + line.count(b"{") <= MOST_DEPTH for line in lines):
        with suppress(ValueError, RecursionError):
            documents: list[Any] = _DECODER.decode("[" + b",".join(lines).decode("utf-8", "surrogatepass") + "]")
            if len(documents) == len(lines):
                return documents
    return [document for line in lines for document in _document(line)]


def _document(line: bytes) -> list[Any]:
    with suppress(ValueError):
        return [parse_json(line)]
    return []


def check_document(document: Any) -> None:
    """Raise ValueError if lists and objects are nested too deeply or a number is too large."""
    for level in _levels(document):
        if any(isinstance(value, int) and abs(value) > MOST_INTEGER for value in level):
            raise ValueError("a number with too many digits")


def _levels(document: Any) -> Iterator[list[Any]]:
    """Yield the values of each level of a document, the outermost first. Raises ValueError for too many levels."""
    level = [document]
    for _ in range(MOST_DEPTH + 1):
        yield level
        holders = [value for value in level if isinstance(value, (list, dict))]
        if not holders:
            return
        level = [item for value in holders for item in (value.values() if isinstance(value, dict) else value)]
    raise ValueError(_TOO_DEEP)
