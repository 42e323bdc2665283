"""The patterns of the catalogue: their time is bounded on any line, and both readers find the same by them."""

from __future__ import annotations

import random
import re
import time

import pytest

from tests.logs.shapes import DEMUXES
from tests.logs.test_catalogue import SAMPLES
from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.dialect import LONGEST_BYTES, Dialect
from tui.logs.dialects.registry import BUILT_IN

WITHOUT_TEXT = re.compile(rb"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
"""Escapes and sets of characters in a pattern."""
UNENDING = re.compile(rb"(?:[*+]|\{\d*,\})(?![?+]?\$)")
"""An unlimited repeat, except for blanks at the end of a line."""


@pytest.mark.parametrize(
    "dialect",
    [each for each in BUILT_IN if each.name != "xla_dist cluster"],
    ids=lambda dialect: f"{dialect.name}-{BUILT_IN.index(dialect)}",
)
def test_built_in_patterns_limit_every_repeat(dialect: Dialect) -> None:
    assert UNENDING.findall(WITHOUT_TEXT.sub(b"x", expand_parts(dialect.source))) == []
    assert dialect.reach <= LONGEST_BYTES


@pytest.mark.parametrize("name", sorted({dialect.name for dialect in BUILT_IN}))
def test_built_in_patterns_read_repeated_parts_of_their_lines_quickly_and_consistently(name: str) -> None:
    """The newest state must be the same whether lines are read alone or many at once."""
    rng = random.Random(name)
    lines = [line.encode() for sample in SAMPLES if sample["dialect"] == name for line in sample["lines"]]
    hints = sorted({hint for dialect in BUILT_IN if dialect.name == name for hint in dialect.hints})
    log, texts = b"", (*lines, *hints)
    for line in texts:
        for _ in range(max(4, min(12, 480 // len(texts)))):
            start, end = sorted((rng.randrange(len(line) + 1), rng.randrange(len(line) + 1)))
            log += line[:start] + line[start:end] * 40 + b"\x00" + line[:end] + rng.choice(hints or [b""]) + b"1.5\n"
    states = []
    began = time.thread_time()
    for fast in (False, True):
        demux = DEMUXES[fast]()
        demux.feed(None, log)
        demux.finish()
        states.append([row.to_json() for row in demux.snapshot().rows()])
    assert states[0] == states[1]
    assert time.thread_time() - began < 10.0
