"""Tests of selecting lines from large logs against a simple way: split at newlines and test each line."""

from __future__ import annotations

import hashlib
import os
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.shapes import LOGS, generated_log, training
from tui.logs.attribution.line_owner import LineOwner
from tui.logs.demux import Demux
from tui.logs.files import line_filter
from tui.logs.files.line_filter import Choice, Picker, forwards, last, last_in_file, pick
from tui.logs.files.lines import names_core
from tui.logs.saved_log import SavedLog, open_log

CHOICES = st.builds(
    Choice,
    worker=st.sampled_from([None, None, 0, 1, 3, 99]),
    core=st.sampled_from([None, None, 0, 1, 4, 11]),
    since=st.sampled_from([None, None, 1_596_681_537.0, 1_596_681_560.0]),
)


def owners_of(data: bytes) -> LineOwner:
    demux = Demux(xla_dist=True)
    demux.feed(None, data)
    demux.finish()
    return demux.line_owner(xla_dist=True)


def slowly(data: bytes, owners: LineOwner, choice: Choice) -> list[tuple[int, bytes]]:
    """Return every line that fits, with the offset of its beginning, by testing each line."""
    found = []
    dated: dict[int | None, float] = {}
    offset = 0
    reader = owners.reader()
    for line in _split(data):
        worker, moment = reader.read(line.removesuffix(b"\n"))
        if moment is not None:
            dated |= {worker: moment, None: moment}
        if (
            choice.worker in (None, worker)
            and (choice.core is None or names_core(line, choice.core))
            and (choice.since is None or dated.get(worker, dated.get(None, 0.0)) >= choice.since)
        ):
            found.append((offset, line))
        offset += len(line)
    return found


def _split(data: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


def blocks_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(LOGS, CHOICES, st.integers(1, 300), st.integers(0, 5))
def test_blocks_of_any_size_give_the_lines_that_testing_each_line_gives(
    data: bytes, choice: Choice, size: int, tail: int
) -> None:
    owners = owners_of(data)
    expected = slowly(data, owners, choice)
    picked = list(pick(forwards(blocks_of(data, size)), Picker(owners, choice)))
    assert [(line.offset, line.data) for line in picked] == expected
    ending = expected[len(expected) - tail :] if tail < len(expected) else expected
    assert [(line.offset, line.data) for line in last(iter(picked), tail)] == ending


@given(LOGS, CHOICES, st.integers(1, 300), st.integers(0, 5))
def test_the_last_lines_read_from_the_end_are_those_read_from_the_beginning(
    data: bytes, choice: Choice, size: int, tail: int
) -> None:
    # Only the beginning of a log can tell the owners of lines in sections and the age of lines without a date.
    owners, choice = owners_of(data)._replace(sectioned=False), replace(choice, since=None)
    expected = slowly(data, owners, choice)
    expected = expected[len(expected) - tail :] if tail < len(expected) else expected
    before, line_filter.BLOCK_BYTES = line_filter.BLOCK_BYTES, size
    try:
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(data)
            count, lines = last_in_file(file, Picker(owners, choice), tail)
            found = [(line.offset, line.data) for line in lines]
    finally:
        line_filter.BLOCK_BYTES = before
    assert (count, found) == (len(expected), expected)


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_line_too_long_for_memory_comes_in_pieces_that_add_up_to_it(size: int) -> None:
    long = b"2020-08-06 02:38:57 10.164.0.43 [0] " + b"x" * 3_500_000 + b"\n"
    data = b"2020-08-06 02:38:57 10.164.0.44 [1] before\n" + long + b"2020-08-06 02:38:58 10.164.0.43 [0] after"
    owners = owners_of(data)
    picked = list(pick(forwards(blocks_of(data, size)), Picker(owners, Choice(worker=0))))
    assert b"".join(line.data for line in picked) == data[data.index(long) :]
    assert max(len(line.data) for line in picked) <= 2 * 1024 * 1024
    assert b"".join(line.data for line in last(picked, 2)) == data[data.index(long) :]
    assert b"".join(line.data for line in last(picked, 1)).endswith(b"after")


def test_a_small_tail_reads_no_further_than_it_must(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(generated_log(40_000, 8))
    with path.open("rb") as file, mock.patch("os.pread", wraps=os.pread) as read:
        count, lines = last_in_file(file, Picker(LineOwner({}), Choice()), 10)
        assert (count, len(list(lines))) == (10, 10)
    assert [call.args[2] >= path.stat().st_size - line_filter.BLOCK_BYTES for call in read.call_args_list] == [
        True
    ] * 2


@pytest.mark.parametrize("worker", [0, 1])
def test_the_last_lines_are_found_in_a_log_with_a_line_too_long_for_memory(tmp_path: Path, worker: int) -> None:
    lines = [b"2020-08-06 02:38:57 10.164.0.43 [0] " + b"x" * size + b"\n" for size in (10, 20_000_000, 10)]
    data = b"2020-08-06 02:38:57 10.164.0.44 [1] before\n" * 50_000 + b"".join(lines)
    path = tmp_path / "long.log"
    path.write_bytes(data)
    tracemalloc.start()
    with path.open("rb") as file:
        count, found = last_in_file(file, Picker(owners_of(data[-500:] + data[:500]), Choice(worker=worker)), 2)
        digest = hashlib.sha256()
        for line in found:
            digest.update(line.data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = data[: 2 * 43] if worker else b"".join(lines[1:])
    assert (count, digest.digest()) == (2, hashlib.sha256(expected).digest())
    assert peak < 10_000_000


def test_the_cached_summary_of_a_log_attributes_lines_to_workers(tmp_path: Path) -> None:
    path, cache = tmp_path / "out.log", tmp_path / "cache"
    path.write_bytes(generated_log(3_000, 8))
    os.utime(path, (1.0, 1.0))
    first = [line.data for line in open_log(path).lines(worker=2, cache=cache)]
    assert [*cache.iterdir()]
    assert [line.data for line in open_log(path).lines(worker=2, cache=cache)] == first
    assert first == [line for line in path.read_bytes().split(b"\n") if b" 10.164.0.42 [2] " in line]


PSSH = (
    "[1] 10:00:01 [SUCCESS] tpu-w-0",
    training(core=0),
    "a line of worker 0",
    "[2] 10:00:02 [FAILURE] tpu-w-1 Exited with error code 1",
    training(core=1),
    "the last of worker 1",
)
RULE = "-" * 15
CLUSH = (
    *(RULE, "tpu-w-0", RULE, training(core=0), "a line of worker 0"),
    *(RULE, "tpu-w-1", RULE, training(core=1), "the last of worker 1"),
)


@pytest.mark.parametrize("lines", [PSSH, CLUSH], ids=["pssh", "clush"])
def test_lines_in_sections_belong_to_the_host_in_the_header(tmp_path: Path, lines: tuple[str, ...]) -> None:
    path, cache = tmp_path / "out.log", tmp_path / "cache"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1.0, 1.0))
    for _ in range(2):
        log = open_log(path)
        assert [line.text for line in log.lines(worker=0, cache=cache)] == [training(core=0), "a line of worker 0"]
        assert [line.text for line in log.lines(worker=1, tail=1, cache=cache)] == ["the last of worker 1"]
        assert [line.text for line in log.lines(worker=1, core=1, cache=cache)] == [training(core=1)]
        headers = [line.text for line in log.lines(cache=cache) if line.worker is None]
        assert headers == [line for line in lines if line.startswith("[") or line in (RULE, "tpu-w-0", "tpu-w-1")]
    assert [*cache.iterdir()]


def test_lines_since_a_time_are_found_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.log"
    path.write_bytes(generated_log(3_000, 8))
    monkeypatch.setattr(SavedLog, "demux", None)
    moments = sorted({line.time for line in open_log(path).picked(Choice(since=0.0)) if line.time is not None})
    late = list(open_log(path).picked(Choice(since=moments[-2])))
    assert {line.time for line in late} == {*moments[-2:]}
