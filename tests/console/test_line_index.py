from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.console.data.line_index import MAX_SHOWN_BYTES, FileLines, MergedLines
from tui.console.data.line_search import PredicateFilter, TextFilter


def index(source: FileLines | TextFilter | MergedLines, budget: int = 50_000) -> None:
    while source.behind:
        source.advance(budget)


def make_index(tmp_path: Path, data: bytes, name: str = "log") -> FileLines:
    path = tmp_path / name
    path.write_bytes(data)
    spool = FileLines(path)
    spool.advance(1)
    index(spool)
    return spool


def test_any_part_of_a_log_with_very_long_lines_is_read_exactly(tmp_path: Path) -> None:
    lines = [b"%d %s" % (n, b"x" * (n * 37 % 400)) for n in range(5000)]
    lines[777], lines[778], lines[4000] = b"L" * 500_000, b"", b"M" * 2_000_000
    spool = make_index(tmp_path, b"\n".join(lines))
    assert spool.count == len(lines)
    for first in (0, 1, 770, 777, 778, 3990, 4000, 4001, 4990):
        assert [line.data for line in spool.lines(first, 20)] == [
            line[:MAX_SHOWN_BYTES] for line in lines[first : first + 20]
        ]


def test_a_closed_log_does_not_open_its_file_again(tmp_path: Path) -> None:
    spool = make_index(tmp_path, b"one\ntwo\n")
    assert len(spool.lines(0, 2)) == 2
    spool.close()
    assert spool.lines(0, 2) == spool.tail(2) == []
    assert not spool.advance(100)


def test_the_bytes_left_out_of_a_long_line_are_counted(tmp_path: Path) -> None:
    lines = [
        b"x" * MAX_SHOWN_BYTES,
        b"y" * (MAX_SHOWN_BYTES + 7),
        b"z" * 300_000,
        b"begin " + b"\r50%" * 90_000,
        b"u" * 99_999,
    ]
    spool = make_index(tmp_path, b"\n".join(lines))
    missing = [0, 7, 300_000 - MAX_SHOWN_BYTES, 0, 99_999 - MAX_SHOWN_BYTES]
    assert [line.missing for line in spool.lines(0, 9)] == missing
    assert [line.missing for line in spool.tail(200)] == missing[-1:]


@pytest.mark.parametrize("before", range(4))
def test_a_long_line_is_cut_between_two_characters(tmp_path: Path, before: int) -> None:
    line = b"x" * before + "🐢".encode() * 5_000
    (read,) = make_index(tmp_path, line + b"\n").lines(0, 1)
    assert set(read.data.decode()[before:]) == {"🐢"}
    assert read.data + line[-read.missing :] == line


def test_a_long_line_that_overwrites_itself_shows_its_newest_part(tmp_path: Path) -> None:
    bar = b"".join(b"\r%6d/30000" % n for n in range(30_000))
    spool = make_index(tmp_path, b"begin\n" + bar + b"\nbetween\n" + bar[:50_000])
    assert [line.data[-13:] for line in spool.lines(0, 9)] == [b"begin", bar[-13:], b"between", bar[49_987:50_000]]
    assert max(len(line.data) for line in spool.lines(0, 9)) == MAX_SHOWN_BYTES


def test_the_index_of_a_long_log_stays_small(tmp_path: Path) -> None:
    spool = make_index(tmp_path, b"a line of ordinary length\n" * 200_000)
    assert len(spool._starts) < 100


def test_a_growing_log_gains_lines_and_an_unfinished_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    spool = FileLines(path)
    assert not spool.advance(1000)
    assert spool.count == 0
    path.write_bytes(b"one\ntw")
    spool.advance(1000)
    assert [line.data for line in spool.lines(0, 9)] == [b"one", b"tw"]
    with path.open("ab") as log:
        log.write(b"o\nthree\n")
    spool.advance(1000)
    assert [line.data for line in spool.lines(0, 9)] == [b"one", b"two", b"three"]


def test_the_end_of_a_log_can_be_read_before_it_is_indexed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % n for n in range(100_000)))
    spool = FileLines(path)
    assert [line.data for line in spool.tail(2)] == [b"line 99998", b"line 99999"]
    assert spool.indexed == 0


def test_one_step_reads_no_more_than_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"abcdefg\n" * 10_000)
    spool = FileLines(path)
    spool.advance(8000)
    assert spool.indexed == 8000
    assert spool.count == 1000
    found = TextFilter(FileLines(path), "abc")
    found.advance(8000)
    assert 0 < found.count <= 1000


@given(
    st.lists(st.text("abA =\t", max_size=30), max_size=60),
    st.text("abA ", min_size=1, max_size=3),
    st.integers(1, 200),
    st.booleans(),
)
def test_a_filter_finds_the_lines_that_contain_the_text_with_any_budget_per_step(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], wanted: str, budget: int, ended: bool
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(data)
    spool = FileLines(path)
    found = TextFilter(spool, wanted)
    for _ in range(len(data) + len(lines) + 3):
        found.advance(budget)
    expected = [line.encode() for line in lines if wanted.lower() in line.lower()]
    assert [line.data for line in found.lines(0, 1000)] == expected
    found.close()


def test_a_filter_finds_a_text_with_capitals_beyond_ascii(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("über\nLoss GRÖSSE 3\n", encoding="utf-8")
    found = TextFilter(FileLines(path), "loss GRÖSSE")
    found.advance(1000)
    assert [line.data.decode() for line in found.lines(0, 9)] == ["Loss GRÖSSE 3"]


def test_a_filter_finds_text_in_a_line_that_was_unfinished_before(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"loss\nlo")
    found = TextFilter(FileLines(path), "loss")
    found.advance(1000)
    assert found.count == 1
    with path.open("ab") as log:
        log.write(b"ss again\n")
    found.advance(1000)
    assert [line.data for line in found.lines(0, 9)] == [b"loss", b"loss again"]


def merged(tmp_path: Path, *batches: tuple[int, bytes]) -> MergedLines:
    ends = dict.fromkeys({worker for worker, _ in batches}, 0)
    arrivals = []
    for worker, data in batches:
        with (tmp_path / str(worker)).open("ab") as log:
            log.write(data)
        ends[worker] += len(data)
        arrivals.append((worker, ends[worker]))
    source = MergedLines([FileLines(tmp_path / str(worker), worker) for worker in ends])
    source.add_arrivals(arrivals)
    while source.behind:
        source.advance(10_000)
    return source


def test_merged_lines_are_ordered_by_the_arrival_of_their_newline(tmp_path: Path) -> None:
    source = merged(tmp_path, (0, b"a1\na2\nhal"), (1, b"b1\n"), (0, b"f\n"), (1, b"b2\nb3\n"), (1, b"b4\n"))
    lines = [(line.worker, line.data) for line in source.lines(0, 99)]
    assert lines == [(0, b"a1"), (0, b"a2"), (1, b"b1"), (0, b"half"), (1, b"b2"), (1, b"b3"), (1, b"b4")]
    assert [line.data for line in source.lines(2, 3)] == [b"b1", b"half", b"b2"]
    assert [line.data for line in source.tail(2)] == [b"b3", b"b4"]


def test_unfinished_lines_are_shown_below_merged_lines(tmp_path: Path) -> None:
    source = merged(tmp_path, (1, b"b1\n\r 0%\r 9%"), (0, b"a1\nhal"), (0, b"f\n\r 7%"))
    expected = [(1, b"b1"), (0, b"a1"), (0, b"half"), (0, b"\r 7%"), (1, b"\r 0%\r 9%")]
    assert [(line.worker, line.data) for line in source.lines(0, 99)] == expected
    assert [line.data for line in source.lines(1, 3)] == [b"a1", b"half", b"\r 7%"]
    assert (source.count, source.finished) == (5, 3)
    found = TextFilter(source, "%")
    found.advance(100_000)
    assert [(found.number(place), line.worker) for place, line in enumerate(found.lines(0, 9))] == [(3, 0), (4, 1)]
    with (tmp_path / "1").open("ab") as log:
        log.write(b"\r99%\n")
    source.add_arrivals([(1, (tmp_path / "1").stat().st_size)])
    found.advance(100_000)
    assert [line.worker for line in source.lines(3, 9)] == [1, 0]
    assert [line.worker for line in found.lines(0, 9)] == [1, 0]


def test_the_unfinished_last_line_of_a_worker_that_has_ended_is_shown_and_found(tmp_path: Path) -> None:
    source = merged(tmp_path, (0, b"a1\nfatal: disk full"), (1, b"b1\nhal"))
    found = TextFilter(source, "disk")
    assert [line.data for line in source.lines(0, 9)] == [b"a1", b"b1"]
    source.set_ended([0])
    assert [(line.worker, line.data) for line in source.lines(0, 9)] == [
        (0, b"a1"),
        (1, b"b1"),
        (0, b"fatal: disk full"),
    ]
    found.advance(100_000)
    assert [line.data for line in found.lines(0, 9)] == [b"fatal: disk full"]
    with (tmp_path / "0").open("ab") as log:
        log.write(b", and more\n")
    source.add_arrivals([(0, (tmp_path / "0").stat().st_size)])
    source.advance(10_000)
    assert [line.data for line in source.lines(2, 9)] == [b"fatal: disk full, and more"]


def test_a_filter_keeps_the_order_of_merged_lines(tmp_path: Path) -> None:
    source = merged(tmp_path, (0, b"x 1\ny\n"), (1, b"y\nx 2\n"), (0, b"X 3\n"))
    found = TextFilter(source, "x ")
    while found.behind:
        found.advance(3)
    assert [(line.worker, line.data) for line in found.lines(0, 9)] == [(0, b"x 1"), (1, b"x 2"), (0, b"X 3")]


def test_chosen_lines_can_be_searched_again(tmp_path: Path) -> None:
    spool = make_index(tmp_path, b"".join(b"%d %s\n" % (n % 3, b"odd" if n % 2 else b"even") for n in range(3000)))
    chosen = PredicateFilter(spool, lambda line: line.startswith(b"1"))
    odd = TextFilter(chosen, "odd")
    for _ in range(2000):
        odd.advance(5000)
    assert chosen.count == 1000
    assert odd.count == 500
    assert {line.data for line in odd.lines(0, 500)} == {b"1 odd"}
