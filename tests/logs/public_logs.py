r"""Logs as public issues, documents and code show them, kept as text, with the rows that a reader should find.

`data/public_logs.txt` holds one paragraph for each log: `# where it was seen`, a `| line` for each line (with the
escapes of Python; `\e` is an escape character), and `= core worker epoch step loss rate` for each row. `-` is a value
that the lines do not hold, `1/2.5` a rate printed as 2.5 seconds a step. Numbers differ from the originals.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.logs.public_shapes import Shape

_DATA = Path(__file__).parent / "data"
_ESCAPES = {"t": "\t", "r": "\r", "b": "\b", "a": "\a", "e": "\x1b", "\\": "\\"}


def _paragraphs(name: str) -> list[list[str]]:
    text = (_DATA / name).read_text(encoding="utf-8")
    return [paragraph.split("\n") for paragraph in text.rstrip("\n").split("\n\n")]


def _line(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], text[2:])


def _count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _figure(text: str) -> float | None:
    if text == "-":
        return None
    above, _, below = text.replace(",", "").partition("/")
    return float(above) / float(below) if below else float(above)


def _shape(paragraph: list[str]) -> Shape:
    rows = [row[2:].split() for row in paragraph if row.startswith("= ")]
    return Shape(
        paragraph[0].removeprefix("# "),
        tuple(_line(line) for line in paragraph if line.startswith("|")),
        tuple((*map(_count, row[:4]), *map(_figure, row[4:])) for row in rows),  # type: ignore[misc]
    )


PUBLIC = [_shape(paragraph) for paragraph in _paragraphs("public_logs.txt")]
PUBLIC_NONE = ["\n".join(map(_line, paragraph)) for paragraph in _paragraphs("public_no_samples.txt")]
"""Lines that look like samples and are none: evaluations, summaries, configurations, documents, source code."""
