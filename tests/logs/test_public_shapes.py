"""Tests of every shape of line in public logs: read whole, in pieces, and block by block."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.public_carriers import CARRIERS, MORE_SECTIONS
from tests.logs.public_logs import PUBLIC, PUBLIC_NONE
from tests.logs.public_none import MISSED, STILL_NO_SAMPLES
from tests.logs.public_shapes import CARRIED, NO_SAMPLES, SAMPLES, SECTIONS, Shape
from tests.logs.shapes import DEMUXES, cut
from tui.logs.demux import Demux

TRAINED = SAMPLES + [shape for shape in PUBLIC if all(worker is None for _core, worker, *_rest in shape.rows)]
EVERY = SAMPLES + CARRIED + CARRIERS
IN_SECTIONS = SECTIONS + MORE_SECTIONS
_WANTED = {shape.seen_in: list(shape.rows) for shape in PUBLIC}


def rows_of(demux: Demux) -> list[tuple[object, ...]]:
    rows = demux.snapshot().rows()
    return [(row.core, row.worker, row.epoch, row.step, row.loss, row.rate) for row in rows]


def read(data: bytes, *, fast: bool = True) -> Demux:
    demux = DEMUXES[fast]()
    demux.feed(None, data)
    demux.finish()
    return demux


def text(shape: Shape) -> bytes:
    return "".join(f"{line}\n" for line in shape.lines).encode()


@pytest.mark.parametrize("shape", EVERY, ids=lambda shape: shape.seen_in)
@pytest.mark.parametrize("fast", [True, False])
def test_shapes_of_public_logs_are_read(shape: Shape, fast: bool) -> None:
    assert rows_of(read(text(shape), fast=fast)) == list(shape.rows)


@pytest.mark.parametrize("fast", [True, False])
def test_public_logs_kept_as_text_are_read(fast: bool) -> None:
    found = {shape.seen_in: rows_of(read(text(shape), fast=fast)) for shape in PUBLIC}
    assert {name: rows for name, rows in found.items() if rows != _WANTED[name]} == {}


def test_logs_that_only_look_like_training_hold_no_sample() -> None:
    found = {log: rows_of(read(f"{log}\n".encode(), fast=fast)) for log in PUBLIC_NONE for fast in (True, False)}
    assert {log: rows for log, rows in found.items() if rows} == {}


def test_hundreds_of_other_lines_around_samples_change_nothing() -> None:
    noise = b"a line of some library\n  and = one, more: 3\n" * 50
    found = {shape: rows_of(read(noise + text(shape) + noise)) for shape in EVERY + PUBLIC}
    assert {shape: rows for shape, rows in found.items() if rows != list(shape.rows)} == {}


@pytest.mark.parametrize("shape", IN_SECTIONS, ids=lambda shape: shape.seen_in)
@pytest.mark.parametrize("most", [1, 7, 40, 10_000])
def test_sections_belong_to_their_hosts_in_pieces_of_any_size(shape: Shape, most: int) -> None:
    data = text(shape)
    demux = Demux()
    for piece in cut(data, list(range(0, len(data), most))):
        demux.feed(None, piece)
    demux.finish()
    assert rows_of(demux) == list(shape.rows)
    assert rows_of(read(data, fast=False)) == list(shape.rows)


@pytest.mark.parametrize(("where", "line"), NO_SAMPLES)
def test_a_line_that_only_looks_like_a_sample_is_none(where: str, line: str) -> None:
    demux = read(f"{line}\n".encode())
    assert (demux.state.samples, rows_of(demux)) == (0, []), where


@pytest.mark.parametrize("line", STILL_NO_SAMPLES)
def test_a_line_that_only_looks_like_a_homemade_sample_is_none(line: str) -> None:
    demux = read(f"{line}\n".encode())
    assert (demux.state.samples, rows_of(demux)) == (0, [])


@pytest.mark.xfail(strict=True, reason="no dialect reads these shapes yet")
@pytest.mark.parametrize("shape", MISSED, ids=lambda shape: shape.seen_in)
def test_shapes_that_no_dialect_reads_yet(shape: Shape) -> None:
    assert repr(rows_of(read(text(shape)))) == repr(list(shape.rows))


@pytest.mark.parametrize("shape", MISSED, ids=lambda shape: shape.seen_in)
def test_shapes_that_no_dialect_reads_are_not_misread(shape: Shape) -> None:
    wanted = {(step, loss) for _core, _worker, _epoch, step, loss, _rate in shape.rows}
    assert {(row[3], row[4]) for row in rows_of(read(text(shape)))} <= wanted


@given(
    st.lists(st.sampled_from([text(shape) for shape in EVERY + PUBLIC]), min_size=1, max_size=6).map(b"".join),
    st.lists(st.integers(0, 4000), max_size=12),
)
def test_any_mixture_of_logs_in_pieces_is_read_as_the_whole(data: bytes, places: list[int]) -> None:
    parts = Demux()
    for piece in cut(data, places):
        parts.feed(None, piece)
    parts.finish()
    whole = read(data, fast=False)
    assert rows_of(parts) == rows_of(whole)
    assert (parts.state.samples, parts.state.matched) == (whole.state.samples, whole.state.matched)


@given(
    st.lists(st.sampled_from([text(shape) for shape in EVERY + PUBLIC + IN_SECTIONS]), min_size=1, max_size=4).map(
        b"".join
    ),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 3), st.binary(max_size=4)), max_size=6),
    st.sampled_from([None, 2]),
)
def test_damaged_lines_are_read_equally_by_both_readers_and_break_nothing(
    data: bytes, damages: list[tuple[int, int, bytes]], worker: int | None
) -> None:
    for place, gone, put in damages:
        at = place % len(data)
        data = data[:at] + put + data[at + gone :] or b"\n"
    states = []
    for fast in (False, True):
        demux = DEMUXES[fast]()
        demux.feed(worker, data)
        demux.finish()
        rows = [row.to_json() for row in demux.snapshot().rows()]
        states.append((rows, demux.state.samples, demux.state.lines, demux.state.matched))
    assert states[0] == states[1]


@given(
    st.lists(st.sampled_from([text(shape) for shape in TRAINED]), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_interleaving_of_workers_gives_each_its_own_samples(logs: list[bytes], rng: random.Random) -> None:
    queues = [cut(data, [rng.randrange(600) for _ in range(4)]) for data in logs]
    together = Demux()
    while any(queues):
        worker = rng.choice([place for place, queue in enumerate(queues) if queue])
        together.feed(worker, queues[worker].pop(0))
    together.finish()
    counted = {worker.worker: worker.samples for worker in together.snapshot().workers}
    for worker, data in enumerate(logs):
        alone = Demux()
        alone.feed(worker, data)
        alone.finish()
        assert counted[worker] == alone.state.samples
