from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import random
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from tests.logs.shapes import SAMPLE_LOG, generated_log, training
from tui.errors import UsageError
from tui.logs.files.compressed_files import BLOCK_BYTES, HEAD_BYTES
from tui.logs.saved_log import open_log

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


NOBODY = 65534
"""The user `nobody`, which owns nothing (Debian Policy, "UID and GID classes")."""

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstd.compress,
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=1),
}


class TestTheSampleLog:
    log = open_log(SAMPLE_LOG)

    def test_gives_each_workers_lines_in_order(self) -> None:
        raw = SAMPLE_LOG.read_bytes().splitlines()
        for worker, address in enumerate(("10.164.0.43", "10.164.0.109", "10.164.0.46", "10.164.0.49")):
            expected = [line for line in raw if f" {address} [{worker}] ".encode() in line]
            assert [line.data for line in self.log.lines(worker=worker)] == expected
            assert expected

    def test_merged_lines_are_the_file_itself(self) -> None:
        assert b"".join(line.data + b"\n" for line in self.log.lines()) == SAMPLE_LOG.read_bytes()

    def test_curl_rows_without_a_prefix_belong_to_no_worker_and_are_kept(self) -> None:
        rows = [line for line in self.log.lines() if line.data.startswith(b"100    19")]
        assert len(rows) == 12
        assert {line.worker for line in rows} == {None}

    def test_offsets_point_into_the_file(self) -> None:
        raw = SAMPLE_LOG.read_bytes()
        assert all(raw[line.offset :].startswith(line.data) for line in self.log.lines())

    def test_lines_of_a_core(self) -> None:
        (line,) = self.log.lines(core=2)
        assert (line.worker, line.to_json()["time"]) == (0, "2020-08-06T02:38:57")
        assert "xla:0/2 " in line.text

    def test_tail_keeps_the_last(self) -> None:
        assert [line.data for line in self.log.lines(tail=2)] == SAMPLE_LOG.read_bytes().splitlines()[-2:]

    def test_cores(self) -> None:
        assert len(self.log.snapshot()) == 16


@pytest.mark.parametrize("compress", [*COMPRESSORS.values()], ids=[*COMPRESSORS])
def test_a_compressed_log_reads_the_same(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "out.log.packed"
    path.write_bytes(compress(SAMPLE_LOG.read_bytes()))
    assert open_log(path).snapshot().rows() == open_log(SAMPLE_LOG).snapshot().rows()
    assert [line.data for line in open_log(path).lines()] == SAMPLE_LOG.read_bytes().splitlines()
    assert [line.data for line in open_log(path).lines(worker=1, tail=2)] == [
        line.data for line in open_log(SAMPLE_LOG).lines(worker=1, tail=2)
    ]


@pytest.mark.parametrize("compress", [*COMPRESSORS.values()], ids=[*COMPRESSORS])
def test_concatenated_compressed_logs_are_one_log(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    first, second = generated_log(20_000, 8, seed=1), generated_log(20_000, 8, seed=2)
    path = tmp_path / "two"
    path.write_bytes(compress(first) + compress(second))
    assert b"".join(open_log(path).blocks()) == first + second


@pytest.mark.parametrize("compress", [*COMPRESSORS.values()], ids=[*COMPRESSORS])
def test_a_small_file_that_unpacks_to_gigabytes_is_read_in_bounded_blocks(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(compress(training().encode() + b"\n" + b" " * (16 << 20)) * 128)
    assert path.stat().st_size < 4 << 20
    log = open_log(path)
    tracemalloc.start()
    try:
        sizes = [len(block) for block in islice(log.blocks(), 200)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(sizes) == 200
    assert max(sizes) <= BLOCK_BYTES
    assert peak < 16 * BLOCK_BYTES


@pytest.mark.parametrize("compress", [*COMPRESSORS.values()], ids=[*COMPRESSORS])
def test_a_prefix_far_from_the_beginning_is_found_in_a_compressed_log(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "late"
    preamble = random.Random(7).randbytes(HEAD_BYTES // 2 - 500).hex()
    path.write_bytes(compress(f"{preamble}\n2020-08-06 02:38:57 10.164.0.109 [1] a line\n".encode()))
    assert open_log(path).workers() == [1]


def test_a_log_from_a_pipe_reads_the_same(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", str(SAMPLE_LOG), str(pipe)]):
        log = open_log(pipe)
    assert log.snapshot().rows() == open_log(SAMPLE_LOG).snapshot().rows()
    assert [line.data for line in log.lines(worker=1)] == [line.data for line in open_log(SAMPLE_LOG).lines(worker=1)]


def test_a_number_that_all_workers_share_is_counted_by_address(tmp_path: Path) -> None:
    path = tmp_path / "shared.log"
    path.write_text("".join(f"2020-06-11 20:49:13 10.164.15.{n} [0] line of {n}\n" for n in (7, 5, 7)))
    assert [line.worker for line in open_log(path).lines()] == [0, 1, 0]


def test_a_last_line_without_an_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "torn.log"
    path.write_text(f"{training(core=1)}\n{training(core=2)}")
    assert [line.text for line in open_log(path).lines()][-1] == training(core=2)
    assert len(open_log(path).snapshot()) == 2


class TestBadFiles:
    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            (b"", "is empty"),
            (b"\x7fELF\x02\x01" + bytes(100), "is not a log"),
            (bytes(range(32)) * 100, "binary"),
            (b"\x28\xb5\x2f\xfd" + b"x" * 50, "its zstd data is broken"),
            (b"PK\x03\x04" + b"x" * 50, "a zip archive"),
            (training(core=1).encode("utf-16"), "UTF-16.*PowerShell"),
            (gzip.compress(b"", mtime=0), "is empty"),
            (b"\x1f\x8b\x08broken", "cannot read"),
        ],
    )
    def test_a_file_that_is_no_log_is_refused_with_a_sentence(
        self, tmp_path: Path, content: bytes, sentence: str
    ) -> None:
        path = tmp_path / "some.log"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=sentence):
            open_log(path)

    def test_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is a directory"):
            open_log(tmp_path)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no such log"):
            open_log(tmp_path / "none")

    @pytest.mark.parametrize("compress", [*COMPRESSORS.values()], ids=[*COMPRESSORS])
    def test_compressed_data_that_is_cut_off_is_read_to_its_end_and_reported(
        self, tmp_path: Path, compress: Callable[[bytes], bytes]
    ) -> None:
        data = generated_log(20_000, 8)
        path = tmp_path / "cut"
        path.write_bytes(compress(data)[:-5000])
        log = open_log(path)
        assert len(log.snapshot()) == 8
        assert log.problem is not None
        assert f"cannot read {path} to its end" in str(log.problem)
        read: list[bytes] = []
        with pytest.raises(UsageError, match="cut off"):
            read.extend(log.blocks())
        assert data.startswith(b"".join(read))
        assert sum(map(len, read)) > len(data) // 2

    @pytest.mark.parametrize("compress", [*COMPRESSORS.values()], ids=[*COMPRESSORS])
    def test_compressed_data_is_read_up_to_where_it_is_broken(
        self, tmp_path: Path, compress: Callable[[bytes], bytes]
    ) -> None:
        data = generated_log(40_000, 8)
        packed = bytearray(compress(data))
        middle = len(packed) // 2
        packed[middle : middle + 500] = b"\xff" * 500
        path = tmp_path / "broken"
        path.write_bytes(packed)
        read: list[bytes] = []
        with pytest.raises(UsageError, match=r"data is broken: (?!it is cut off)"):
            read.extend(open_log(path).blocks())
        assert sum(map(len, read)) > len(data) // 5
        assert data.startswith(b"".join(read)[: len(data) // 5])

    def test_a_device(self) -> None:
        with pytest.raises(UsageError, match="is not a file"):
            open_log("/dev/zero")

    def test_a_file_that_may_not_be_read(self, tmp_path: Path) -> None:
        path = tmp_path / "closed.log"
        path.write_text(training())
        path.chmod(0)
        with as_nobody(), pytest.raises(UsageError, match="Permission denied"):
            open_log(path)

    def test_a_log_with_a_few_zero_bytes_is_a_log(self, tmp_path: Path) -> None:
        path = tmp_path / "zeros.log"
        path.write_bytes(bytes(40_000) + training().encode() + b"\n")
        assert len(open_log(path).snapshot()) == 1


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Become a user without permissions if this process runs as root, which may read every file."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux counts it, in KiB")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    part = generated_log(30_000, 64)
    path.write_bytes(part)
    open_log(path).snapshot()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with path.open("ab") as file:
        for _ in range(20):
            file.write(part)
    assert open_log(path).snapshot().lines == 21 * 30_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024


class TestALogThatChangesWhileItIsRead:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "changing.log"
        path.write_bytes(generated_log(30_000, 64))
        return path

    def test_lines_added_meanwhile_are_read_too(self, path: Path) -> None:
        lines = iter(open_log(path).lines())
        first = next(lines)
        with path.open("ab") as file:
            file.write(training(core=99).encode() + b"\n")
        rest = list(lines)
        assert first.offset == 0
        assert rest[-1].text == training(core=99)

    def test_a_log_that_was_truncated_ends_at_its_new_end(self, path: Path) -> None:
        whole = path.read_bytes()
        lines = iter(open_log(path).lines())
        seen = [next(lines)]
        os.truncate(path, 100)
        seen += list(lines)
        assert whole.startswith(b"\n".join(line.data for line in seen))
        assert len(open_log(path).snapshot()) <= 1

    def test_a_log_that_was_replaced_is_read_to_its_end(self, path: Path) -> None:
        lines = iter(open_log(path).lines())
        seen = [next(lines)]
        other = path.with_name("new.log")
        other.write_text(training(core=1) + "\n")
        other.replace(path)
        assert len(seen + list(lines)) == 30_000
        assert [row.core for row in open_log(path).snapshot().rows()] == [1]


def test_random_bytes_are_refused_as_binary(tmp_path: Path) -> None:
    path = tmp_path / "noise.log"
    path.write_bytes(random.Random(7).randbytes(100_000))
    with pytest.raises(UsageError, match="not a log"):
        open_log(path)


def test_a_log_in_another_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.log"
    path.write_bytes("Übung für Schüler\n".encode("latin-1") * 100)
    assert sum(1 for _ in open_log(path).lines()) == 100
