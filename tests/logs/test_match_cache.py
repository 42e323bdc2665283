"""Tests of the match cache: lines that differ in digits only share a match, with the same result."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.public_logs import PUBLIC, PUBLIC_NONE
from tests.logs.public_none import STILL_NO_SAMPLES
from tests.logs.public_shapes import NO_SAMPLES
from tests.logs.test_public_shapes import EVERY, text
from tui.logs.attribution import launcher_prefixes, xla_dist_prefix
from tui.logs.demux import Demux
from tui.logs.dialects import match_cache
from tui.logs.dialects.catalogue_files import expand_parts
from tui.logs.dialects.dialect import Dialect
from tui.logs.dialects.match_cache import DialectReader
from tui.logs.dialects.registry import BUILT_IN
from tui.logs.dialects.user_dialects import user_dialects
from tui.logs.files.log_stream import LogStream
from tui.logs.single_line_reader import SingleLineReader

CORPUS = [text(shape) for shape in EVERY + PUBLIC]
LINES = sorted({line for log in CORPUS for line in log.splitlines()})
NOT_SAMPLES = (
    [line.encode() for line in STILL_NO_SAMPLES]
    + [line.encode() for _, line in NO_SAMPLES]
    + [line.encode() for log in PUBLIC_NONE for line in log.split("\n")]
)


def varied(log: bytes, rng: random.Random) -> bytes:
    """Return the same log with other digits."""
    return bytes(rng.choice(b"0123456789") if byte in b"0123456789" else byte for byte in log)


def rows_of(demux: Demux) -> object:
    rows = [row.to_json() for row in demux.snapshot().rows()]
    return rows, demux.state.samples, demux.state.matched, demux.state.facts


COUNTS = re.compile(rb"\{\d*,?\d*\}|0-9|\(\?\(?\w+\)|\\x[0-9A-Fa-f]{2}")
"""Parts of a pattern that may contain a digit without distinguishing digits: repeats, all digits, octets."""


def names_digits(pattern: bytes) -> bool:
    """Return whether a pattern could match one digit and not the others."""
    references = set(re.findall(rb"\(\?P=(\w+)\)", pattern)) - {b"q", b"v"}  # quotes
    groups = re.sub(rb"\?P[<=]\w+[>)]", b"", pattern)
    return bool(references) or re.search(rb"\d", COUNTS.sub(b"", groups)) is not None


@pytest.mark.parametrize("dialect", BUILT_IN, ids=[f"{place}-{each.name}" for place, each in enumerate(BUILT_IN)])
def test_no_dialect_distinguishes_digits(dialect: Dialect) -> None:
    assert not names_digits(expand_parts(dialect.source))


def test_no_pattern_of_a_prefix_distinguishes_digits() -> None:
    objects = [*vars(xla_dist_prefix).values(), *vars(launcher_prefixes).values()]
    patterns = [each for each in objects if isinstance(each, re.Pattern)]
    assert len(patterns) > 5
    assert [pattern for pattern in patterns if names_digits(pattern.pattern.replace(b"k8s", b""))] == []


@given(st.randoms(use_true_random=False))
def test_a_line_read_after_a_similar_one_is_read_as_if_alone(rng: random.Random) -> None:
    reader = DialectReader(BUILT_IN)
    for line in (varied(line, rng) for line in rng.sample(LINES + NOT_SAMPLES, 8)):
        alone = DialectReader(BUILT_IN).read(line, line)
        reader.read(varied(line, rng), varied(line, rng))
        assert reader.read(line, line) == alone


@pytest.mark.parametrize("fraction", [b"3", b"0", b"00", b"01", b"000000", b"0000000"])
def test_a_step_whose_fraction_is_zero_is_read_unlike_one_that_is_not_whole(fraction: bytes) -> None:
    line = b"ms/step: 775." + fraction
    alone = DialectReader(BUILT_IN).read(line, line)
    assert bool(alone.found) == (fraction in (b"0", b"00", b"000000"))
    for other in (b"1" * len(fraction), b"0" * len(fraction)):
        reader = DialectReader(BUILT_IN)
        reader.read(b"ms/step: 700." + other, b"ms/step: 700." + other)
        assert reader.read(line, line) == alone


@given(
    st.lists(st.sampled_from(CORPUS), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from([None, 3]),
)
def test_a_log_is_read_equally_with_and_without_the_cache(
    logs: list[bytes], rng: random.Random, worker: int | None
) -> None:
    data = b"".join(varied(log, rng) if rng.random() < 0.7 else log for log in logs for _ in range(3))
    states = []
    for most in (0, match_cache.LONGEST_SHAPE_BYTES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(match_cache, "LONGEST_SHAPE_BYTES", most)
            demux = Demux()
            demux.feed(worker, data)
            demux.finish()
            states.append(rows_of(demux))
    assert states[0] == states[1]


def test_the_cache_stays_small_when_every_line_has_a_new_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_cache, "MOST_SHAPES", 256)
    reader = DialectReader(BUILT_IN)
    for number in range(3 * match_cache.MOST_SHAPES):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        line = f"step 5 loss 2.5 {name}".encode()
        reader.read(line, line)
    assert match_cache.MOST_SHAPES <= reader.size <= 2 * match_cache.MOST_SHAPES


def test_a_shape_that_recurs_is_never_dropped_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_cache, "MOST_SHAPES", 4)
    reader = DialectReader(BUILT_IN)
    first = reader.read(b"step 5 loss 2.5", b"step 5 loss 2.5")
    for name in "abcdefghijklmnop":
        line = f"step 5 loss 2.5 {name}".encode()
        reader.read(line, line)
        assert reader.read(b"step 6 loss 9.5", b"step 6 loss 9.5") is first


def test_a_pattern_that_distinguishes_digits_is_tried_on_every_line() -> None:
    own = user_dialects({"mine": r"v2 at (?P<step>\d+) cost (?P<loss>[\d.]+)"})
    demux = Demux(dialects=(*own, *BUILT_IN))
    demux.feed(0, b"v1 at 10 cost 1.5\nv2 at 20 cost 2.5\nv3 at 30 cost 3.5\n")
    (row,) = demux.snapshot().rows()
    assert (row.step, row.loss, demux.state.samples) == (20, 2.5, 1)


def test_a_users_pattern_finds_the_same_with_and_without_a_prefix() -> None:
    own = user_dialects({"mine": r"at (?P<step>\d+) cost (?P<loss>[\d.]+)"})
    demux = Demux(dialects=(*own, *BUILT_IN))
    demux.feed(None, b"10.164.0.43 [0] at 10 cost 1.5\nat 20 cost 2.5\n10.164.0.44 [1] at 30 cost 3.5\n")
    demux.feed(None, b"10.164.0.43 [0] at 40 cost 4.5\nat 50 cost 5.5\n10.164.0.44 [1] at 60 cost 6.5\n")
    demux.finish()
    assert [(row.worker, row.step, row.loss) for row in demux.snapshot().rows()] == [(0, 40, 4.5), (1, 60, 6.5)]
    assert demux.state.samples == 6


@pytest.mark.parametrize("step", ["1e+88", "9.5e+99"])
def test_an_impossibly_large_step_is_ignored(step: str) -> None:
    demux = Demux()
    demux.feed(0, f"| step | {step} |\n| loss | 2.5 |\n| step     | {step}    |\n| loss     | 2.5      |\n".encode())
    assert demux.snapshot().rows() == []


def test_a_loss_too_large_for_a_curve_is_still_shown() -> None:
    demux = Demux()
    demux.feed(0, b"step 5 loss 2.5e+88\n")
    assert [row.loss for row in demux.snapshot().rows()] == [2.5e88]


class CountingBytes(bytes):
    """Bytes that count how often they are searched for a hint."""

    searches = 0

    def __contains__(self, part: object) -> bool:
        CountingBytes.searches += 1
        return super().__contains__(part)  # type: ignore[operator]


def test_lines_without_hints_are_searched_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingBytes, "searches", 0)
    reader = DialectReader(BUILT_IN)
    lines = [b"compiling the graph", *random.Random(5).randbytes(100_000).split(b"\n")]
    assert {reader.dialects_for(CountingBytes(line)) for line in lines} == {()}
    assert CountingBytes.searches < len(lines)


def test_only_few_lines_of_binary_data_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    read_line = SingleLineReader.read_line

    def count(lines: SingleLineReader, stream: LogStream, line: bytes, now: float | None, offset: int) -> None:
        read.append(line)
        read_line(lines, stream, line, now, offset)

    monkeypatch.setattr(SingleLineReader, "read_line", count)
    data = random.Random(5).randbytes(1_000_000)
    demux = Demux()
    demux.feed(0, data)
    demux.finish()
    assert len(read) < 0.25 * demux.state.lines
