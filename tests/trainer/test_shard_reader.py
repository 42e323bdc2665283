"""Tests of reading shards as samples: grouped as webdataset groups them, read while they arrive, headers checked."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import itertools
import lzma
import multiprocessing
import socket
import tarfile
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from webdataset.tariterators import group_by_keys

from tests.trainer import layouts
from tests.trainer.small_shards import config, ppm, refused, shard
from trainer.config import TrainConfig
from trainer.data import (
    pipeline,
    prefetch,
    shard_reader,
    tar_samples,
)
from trainer.data.dataset import Dataset, ShardSet
from trainer.data.shard_reader import ShardFile
from trainer.storage import objects, resumable_stream

PARTS = st.text("aB1_", min_size=1, max_size=2)
NAMES = st.builds(lambda folder, key, field: folder + key + field, st.sampled_from(["", "d/", "d.e/"]), PARTS, PARTS)
FILES = st.lists(
    st.tuples(NAMES, st.lists(st.sampled_from([".cls", ".JPG", ".seg.png", ""]), unique=True, max_size=3)),
    max_size=6,
)


@given(FILES)
def test_files_become_the_samples_that_webdataset_makes_of_them(files: list[tuple[str, list[str]]]) -> None:
    members = [(name + field, name.encode()) for name, fields in files for field in fields]
    with suppress(ValueError):  # a file that occurs twice is an error in both
        expected = list(group_by_keys({"fname": n, "data": c, "__url__": "there"} for n, c in members))
        assert list(tar_samples.group_files("there", members)) == expected
        return
    with pytest.raises(ValueError, match="occurs twice"):
        list(tar_samples.group_files("there", members))


@pytest.mark.parametrize("place", [0, 100, 124, 148, 257, 511])
def test_a_header_with_any_wrong_byte_is_damage(tmp_path: Path, place: int) -> None:
    path = Path(shard(tmp_path / "x.tar", [(ppm(1), 1)] * 2))
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    assert "x.tar is damaged or cut off" in refused(lambda: list(shard_reader.read_shard(ShardFile(str(path)))))


def packed(at: Path, *members: tarfile.TarInfo, **pax: str) -> bytes:
    with tarfile.open(at, "w", format=tarfile.PAX_FORMAT) as archive:
        for each in members:
            each.pax_headers = pax
            archive.addfile(each, io.BytesIO(b"1" * each.size))
    return at.read_bytes()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, int(kind == tarfile.REGTYPE)
    return info


def test_entries_of_other_tools_before_files_are_skipped_and_renames_are_applied(tmp_path: Path) -> None:
    """Covers GNU tar's directories, and extended headers with a fractional time or another name."""
    path = tmp_path / "x.tar"
    content = packed(path, member("./", tarfile.DIRTYPE), member("./a.cls"), member("./a.jpg"), mtime="1.5")
    assert [sorted(sample) for sample in tar_samples.group_files("x", tar_samples.read_files(content))] == [
        ["__key__", "__url__", "cls", "jpg"]
    ]
    packed(path, member("a.cls"), path="b.cls")
    assert [sample["__key__"] for sample in shard_reader.read_shard(ShardFile(str(path)))] == ["b"]


@given(
    st.lists(st.integers(1, 400).map(lambda length: "d/" * (length // 9) + "k" * (1 + length % 9)), max_size=5),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.sampled_from(["", "gz", "bz2", "xz"]),
    st.integers(1, 3000),
)
def test_files_are_read_as_pythons_tarfile_wrote_them(names: list[str], kind: int, packing: str, part: int) -> None:
    """In each of tarfile's formats, with names too long for one field, compressed or not, in parts of any size."""
    stream = io.BytesIO()
    written = []
    with tarfile.open(fileobj=stream, mode=f"w:{packing}", format=kind) as archive:  # type: ignore[call-overload]
        for number, name in enumerate(names):
            info = tarfile.TarInfo(f"{name}.{number}")
            info.size = 100 * number
            with suppress(ValueError):  # the name is too long for this format
                archive.addfile(info, io.BytesIO(bytes(info.size)))
                written.append((info.name, bytes(info.size)))
    stream.seek(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tar_samples, "PART_BYTES", part)
        content = tar_samples.decompressed(stream)
        if written:
            assert list(tar_samples.read_files(content)) == written
        else:
            assert list(tar_samples.read_files(content)) == []


@pytest.mark.parametrize("size", [b"-0000003000\0", b"+0000003000\0", b"000_003000\0\0"])
def test_a_header_whose_size_has_a_sign_is_damage(tmp_path: Path, size: bytes) -> None:
    """A negative size would lead back to an earlier file, which would be read again without end."""
    content = bytearray(packed(tmp_path / "x.tar", member("a.cls"), member("b.cls")))
    content[1024 + 124 : 1024 + 136] = size
    content[1024 + 148 : 1024 + 156] = b" " * 8
    content[1024 + 148 : 1024 + 156] = b"%06o\0 " % sum(content[1024:1536])
    with pytest.raises(ValueError, match="there is something else in place of a header"):
        list(itertools.islice(tar_samples.read_files(bytes(content)), 9))


@pytest.mark.parametrize("record", [b"12 size=-51", b"12 size=+51", b"+12 size=51", b"1_2 size=51", b"no size=512"])
def test_an_extended_header_whose_numbers_have_a_sign_is_damage(tmp_path: Path, record: bytes) -> None:
    content = packed(tmp_path / "x.tar", member("a.cls"), member("b.cls"), size="512")
    with pytest.raises(ValueError, match="an extended header is damaged"):
        list(itertools.islice(tar_samples.read_files(content.replace(b"12 size=512", record)), 9))


def peak_of(read: Callable[[], object]) -> int:
    """Return the most bytes of memory that are allocated at once."""
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", params=[gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def bomb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a small shard that decompresses to 32 MiB, and that claims to hold a file of 1 GiB."""
    info = tarfile.TarInfo("a.jpg")
    info.size = 1 << 30
    path = tmp_path_factory.mktemp("bomb") / "bomb.tar"
    path.write_bytes(request.param(info.tobuf() + bytes(1 << 25)))
    return path


def test_a_compressed_shard_is_decompressed_in_parts_of_a_limited_size(bomb: Path) -> None:
    with bomb.open("rb") as stream:
        content = tar_samples.decompressed(stream)
        assert peak_of(lambda: content[1 << 23 : (1 << 23) + 512]) < 1 << 24
        assert len(content[(1 << 25) - 512 : 1 << 26]) == 1024


def test_a_file_too_large_for_a_sample_is_damage_and_is_not_gathered(bomb: Path) -> None:
    why = f"bomb.tar is damaged or cut off: a.jpg has {1 << 30} bytes, more than {tar_samples.LARGEST_SAMPLE_BYTES}"
    printed: list[str] = []
    assert peak_of(lambda: printed.append(refused(lambda: shard_reader.count_samples(str(bomb))))) < 1 << 24
    assert why in printed[0]


def test_an_xz_file_that_claims_a_huge_dictionary_is_damage_before_memory_is_allocated() -> None:
    content = bytearray(lzma.compress(bytes(1024)))
    ends = 12 + 4 * content[12]  # of the block's header, before its checksum
    content[content.index(b"\x21\x01", 12) + 2] = 39  # 3 GiB
    content[ends : ends + 4] = zlib.crc32(content[12:ends]).to_bytes(4, "little")
    with pytest.raises(ValueError, match="Memory usage limit exceeded"):
        tar_samples.decompressed(io.BytesIO(content))[0:512]


def test_a_sample_of_too_many_files_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_samples, "LARGEST_SAMPLE_BYTES", 4000)
    for names, whole in (("abc", True), ("a" * 9, False)):
        files = [(f"{name}.{number}", bytes(100)) for number, name in enumerate(names)]
        if whole:
            assert len(list(tar_samples.group_files("x", files))) == 3
        else:
            with pytest.raises(ValueError, match="sample a has more than 4000 bytes"):
                list(tar_samples.group_files("x", files))


def test_an_extended_header_of_any_number_of_records_is_read_quickly_or_is_damage(tmp_path: Path) -> None:
    """Each record was read by copying all that follow: minutes for a few MB."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 6 * 170_000
    records = b"6 a=b\n" * 169_998 + b"12 path=b.j\n"
    padded = records + bytes(-len(records) % 512)
    content = info.tobuf() + padded + member("a.cls").tobuf() + b"1".ljust(512, b"\0") + bytes(1024)
    assert list(tar_samples.read_files(content)) == [("b.j", b"1")]
    info.size = 2 << 20
    with pytest.raises(ValueError, match=f"x has {2 << 20} bytes, more than {1 << 20}"):
        list(tar_samples.read_files(info.tobuf() + content))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_instead_of_files_are_reported_with_the_option_that_stores_files(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "x.tar"
    packed(path, member("latest", tarfile.SYMTYPE, "d"), member("0.cls"), member("0.jpg", kind, "1.jpg"))
    text = refused(lambda: list(shard_reader.read_shard(ShardFile(str(path)))))
    assert text.startswith(f"Shard {path} holds links instead of files: 0.jpg links to 1.jpg. ")
    assert "--dereference" in text


def test_a_streamed_shard_that_continues_without_a_valid_header_is_damaged(tmp_path: Path) -> None:
    whole = Path(shard(tmp_path / "x.tar", [(ppm(1), 1)] * 3)).read_bytes()
    broken = tmp_path / "broken.tar"
    for rest, says in (
        (b"\xaa" * 2048, "there is something else in place of a header"),
        (whole[:300], "it ends in the middle of a header"),
    ):
        broken.write_bytes(whole[: 2 * 5120] + rest)
        text = refused(lambda: shard_reader.count_samples(f"pipe:cat {broken}"))
        assert f"broken.tar is damaged or cut off: {says}" in text


def test_a_shard_that_is_cut_off_between_two_samples_is_detected_by_its_missing_end(tmp_path: Path) -> None:
    path = Path(shard(tmp_path / "x.tar", [(ppm(1), 1)] * 3))
    whole = path.read_bytes()
    assert shard_reader.count_samples(str(path)) == 3
    path.write_bytes(whole[: 2 * 5120])
    for url in (str(path), f"pipe:cat {path}", f"pipe:gzip -c {path}"):
        text = refused(lambda url=url: shard_reader.count_samples(url))  # type: ignore[misc]
        assert "x.tar is damaged or cut off: it ends without the blocks of zeros that end a tar file" in text


class Gate:
    """A proxy before a server that passes an answer's first bytes, and the rest when it is opened."""

    def __init__(self, server: str, first: int) -> None:
        host, port = server.removeprefix("http://").split(":")
        self._address, self._first = (host, int(port)), first
        self.opened = threading.Event()
        self.seen: list[str] = []  # "asked" for each request and "answered" for each part, in order
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self.opened.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, suppress(ConnectionError):  # a reader may close its connection early
                    self._hand_on(client)

    def _hand_on(self, client: socket.socket) -> None:
        with socket.create_connection(self._address) as server:
            request = client.recv(65536)
            self.seen.append("asked")
            server.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            left = self._first
            while answer := server.recv(min(left, 65536) if left else 65536):
                self.seen.append("answered")
                client.sendall(answer)
                left = max(0, left - len(answer))
                if not left:
                    self.opened.wait()


@pytest.fixture
def slow_shard(
    object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ShardFile, Gate]]:
    """Store twelve samples of 4 KB in a bucket, a third of which arrives before the gate is opened."""
    content = Path(shard(tmp_path / "x.tar", [(ppm(n), n % 10) for n in range(12)])).read_bytes()
    url = f"gs://trainer-test/{tmp_path.name}/x.tar"
    objects.write(url, content)
    gate = Gate(object_store, len(content) // 3)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gate.url)
    yield ShardFile(url, len(content)), gate
    gate.close()


def test_a_shard_from_a_bucket_is_read_while_the_rest_of_it_is_still_arriving(
    slow_shard: tuple[ShardFile, Gate],
) -> None:
    file, gate = slow_shard
    for samples in shard_reader.read_shards([file]):
        first = list(itertools.islice(samples, 2))
        assert not gate.opened.is_set()
        gate.opened.set()
        assert [int(sample["cls"]) for sample in (*first, *samples)] == [n % 10 for n in range(12)]


def set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_a_shard_from_a_bucket_is_requested_only_once_the_previous_one_begins_to_arrive(
    slow_shard: tuple[ShardFile, Gate],
) -> None:
    file, gate = slow_shard
    assert file.size is not None
    before = threading.Event()
    arriving = shard_reader._ArrivingShard(file, file.size)
    fetching = threading.Thread(target=arriving.fetch, args=(before,))
    fetching.start()
    gate.seen.append("begun")
    before.set()
    gate.opened.set()
    fetching.join()
    assert gate.seen[:3] == ["begun", "asked", "answered"]
    assert arriving.has_started.is_set()


@pytest.mark.parametrize("part", [7, 511, 512, 1000])
def test_a_shard_from_a_bucket_reads_the_same_in_parts_of_any_size(
    slow_shard: tuple[ShardFile, Gate], monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    file, gate = slow_shard
    assert file.size is not None
    gate.opened.set()
    whole = objects.read(file.url)
    monkeypatch.setattr(shard_reader, "PART_BYTES", part)
    arriving = shard_reader._ArrivingShard(file, file.size)
    arriving.fetch(set_event())
    arrived = tar_samples.ForwardBytes(arriving.parts())
    places = [*range(0, file.size, 700), file.size, file.size + 512]
    assert [arrived[place : place + 690] for place in places] == [whole[place : place + 690] for place in places]
    early = shard_reader._ArrivingShard(file, file.size)
    early.fetch(set_event())
    assert tar_samples.ForwardBytes(early.parts())[file.size : file.size + 512] == b""


def test_a_missing_shard_of_a_bucket_does_not_delay_the_next_one(object_store: str) -> None:
    missing = shard_reader._ArrivingShard(ShardFile("gs://trainer-test/none.tar", 1024), 1024)
    missing.fetch(set_event())
    assert missing.has_started.is_set()
    assert "There is no object" in refused(lambda: next(missing.parts()))


def fetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "fetch"]


def test_a_reader_that_stops_waits_for_no_bytes_of_a_stalled_bucket(
    slow_shard: tuple[ShardFile, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, gate = slow_shard
    monkeypatch.setattr(
        shard_reader, "CLOSE_TIMEOUT_S", resumable_stream.TIMEOUTS_S[1] / 2
    )  # enough for a busy machine, but less than the timeout of a read
    with closing(shard_reader.read_shards([file])) as shards:
        assert next(next(shards))["cls"] == b"0"
        assert fetch_threads()
    assert not gate.opened.is_set()
    assert fetch_threads() == []


def test_a_reader_that_stops_does_not_wait_for_an_answer_that_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reader, "CLOSE_TIMEOUT_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with closing(shard_reader.read_shards([ShardFile("gs://trainer-test/x.tar", 1024)] * 2)) as shards:
            next(shards)
            connection, _ = silent.accept()
        left = fetch_threads()
        assert all(thread.daemon for thread in left)
        connection.close()
    for thread in left:
        thread.join()  # the thread does not try again


def count_loaders_before_and_after_a_stop(cfg: TrainConfig, found: Dataset) -> tuple[int, int]:
    """Return the number of loader processes once an epoch's first batch has come, and once it was stopped."""
    prefetch.CLOSE_TIMEOUT_S = 0.1
    with closing(pipeline.train_epoch(cfg, found, 0, 1, 1)) as batches:
        next(batches)
        before = len(multiprocessing.active_children())
    return before, len(multiprocessing.active_children())


def test_a_loader_process_that_waits_for_a_stalled_bucket_does_not_delay_the_end(
    slow_shard: tuple[ShardFile, Gate], tmp_path: Path
) -> None:
    file, gate = slow_shard
    found = Dataset(ShardSet((replace(file, samples=12),)), None, 10, 32)
    cfg = config(batch=1, loader_workers=1, train="x", classes=10, shuffle_buffer=1)
    assert layouts.call(count_loaders_before_and_after_a_stop, cfg, found, err=tmp_path / "err") == (1, 0)
    assert not gate.opened.is_set()


def test_a_verified_shard_of_a_bucket_yields_nothing_before_it_has_arrived_whole(
    slow_shard: tuple[ShardFile, Gate],
) -> None:
    file, gate = slow_shard
    gate.opened.set()
    content = objects.read(file.url)
    right, wrong = (
        shard_reader._ArrivingShard(ShardFile(file.url, file.size, digest), len(content))
        for digest in (hashlib.sha256(content).hexdigest(), "0" * 64)
    )
    for arriving in (right, wrong):
        arriving.fetch(set_event())
    assert b"".join(right.parts()) == content
    assert "its checksum is not the one in the manifest" in refused(lambda: next(wrong.parts()))


def test_a_shard_of_a_bucket_with_another_size_than_in_its_manifest_yields_no_sample(
    slow_shard: tuple[ShardFile, Gate],
) -> None:
    file, gate = slow_shard
    assert file.size is not None
    gate.opened.set()
    for wrong in (file.size - 512, file.size + 512):
        for samples in shard_reader.read_shards([ShardFile(file.url, wrong)]):
            printed = refused(lambda: next(samples))  # noqa: B023
            assert f"it has {file.size} bytes, its manifest says {wrong}" in printed
