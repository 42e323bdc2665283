"""Tests of the demultiplexer against a slow, independent reader: one line at a time, split at blanks."""

from __future__ import annotations

import pytest

from tests.logs.shapes import cut, generated_log
from tui.logs.demux import Demux

pytestmark = pytest.mark.py310

Row = tuple[int, int, int | None, int | None, str, str, str, str]


def slow_reader(data: bytes) -> dict[int, Row]:
    """Return the last training line of each core, found by splitting text."""
    last: dict[int, Row] = {}
    for line in data.decode().splitlines():
        words = line.split()
        if "Training" not in words:
            continue
        worker = int(words[3].strip("[]")) if words[0].startswith("2020") else None
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        core = int(fields["Device"].split("/")[1])
        last[core] = (
            core, int(fields["Step"]), worker, int(fields["Epoch"]),
            fields["Loss"], fields["Rate"], fields["GlobalRate"], fields["Time"],
        )  # fmt: skip
    return last


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("chunk", [97, 4096, 65_536, 1 << 20])
def test_both_readers_agree_on_the_last_line_of_every_core(prefix: bool, chunk: int) -> None:
    data = generated_log(6000, 64, prefix=prefix, seed=chunk)
    demux = Demux()
    for part in cut(data, list(range(0, len(data), chunk))):
        demux.feed(None, part)
    rows = demux.snapshot().rows()
    expected = slow_reader(data)
    assert [row.core for row in rows] == sorted(expected)
    for row in rows:
        assert row.core is not None
        core, step, worker, epoch, loss, rate, global_rate, clock = expected[row.core]
        assert (row.core, row.step, row.worker, row.epoch, row.clock) == (core, step, worker, epoch, clock)
        assert (row.loss, row.rate, row.global_rate) == (float(loss), float(rate), float(global_rate))
