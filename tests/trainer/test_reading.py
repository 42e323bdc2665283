"""Shards as samples: grouped as webdataset groups them, read while they come, checked header by header."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from webdataset.tariterators import group_by_keys  # noqa: E402

from tests.trainer.small_shards import ppm, refused, shard  # noqa: E402
from trainer import objects, reading  # noqa: E402
from trainer.reading import ShardFile  # noqa: E402

PARTS = st.text("aB1_", min_size=1, max_size=2)
NAMES = st.builds(lambda folder, key, field: folder + key + field, st.sampled_from(["", "d/", "d.e/"]), PARTS, PARTS)
FILES = st.lists(
    st.tuples(NAMES, st.lists(st.sampled_from([".cls", ".JPG", ".seg.png", ""]), unique=True, max_size=3)),
    max_size=6,
)


@given(FILES)
def test_files_become_the_samples_that_webdataset_makes_of_them(files: list[tuple[str, list[str]]]) -> None:
    members = [(name + field, name.encode()) for name, fields in files for field in fields]
    with suppress(ValueError):  # a file that comes twice is an error for both
        expected = list(group_by_keys({"fname": n, "data": c, "__url__": "there"} for n, c in members))
        assert list(reading._grouped("there", members)) == expected
        return
    with pytest.raises(ValueError, match="is in it twice"):
        list(reading._grouped("there", members))


@pytest.mark.parametrize("place", [0, 100, 124, 148, 257, 511])
def test_a_header_with_any_wrong_byte_is_damage(tmp_path: Path, place: int) -> None:
    path = Path(shard(tmp_path / "x.tar", [(ppm(1), 1)] * 2))
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    assert "x.tar is damaged or cut off" in refused(lambda: list(reading.read_shard(ShardFile(str(path)))))


class Gate:
    """Stands before a server, and lets an answer's first bytes through, the rest when it is opened."""

    def __init__(self, server: str, first: int) -> None:
        host, port = server.removeprefix("http://").split(":")
        self._address, self._first = (host, int(port)), first
        self.opened = threading.Event()
        self.seen: list[str] = []  # "asked" and "answered", in the order in which they happened
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
                with client, suppress(ConnectionError):  # who has read enough goes away, and others may come
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
    """Twelve samples of 4 KB in a bucket, of which a third comes before the gate is opened."""
    content = Path(shard(tmp_path / "x.tar", [(ppm(n), n % 10) for n in range(12)])).read_bytes()
    url = f"gs://trainer-test/{tmp_path.name}/x.tar"
    objects.write(url, content)
    gate = Gate(object_store, len(content) // 3)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gate.url)
    yield ShardFile(url, len(content)), gate
    gate.close()


def test_a_buckets_shard_is_read_while_the_rest_of_it_is_still_on_its_way(slow_shard: tuple[ShardFile, Gate]) -> None:
    file, gate = slow_shard
    for samples in reading.read_shards([file]):
        first = list(itertools.islice(samples, 2))
        assert not gate.opened.is_set()
        gate.opened.set()
        assert [int(sample["cls"]) for sample in (*first, *samples)] == [n % 10 for n in range(12)]


def begun() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_a_buckets_shard_is_not_asked_for_before_the_one_before_it_begins_to_come(
    slow_shard: tuple[ShardFile, Gate],
) -> None:
    file, gate = slow_shard
    assert file.size is not None
    closed, before = threading.Event(), threading.Event()
    arriving = reading._Arriving(file, file.size, closed)
    fetching = threading.Thread(target=arriving.fetch, args=(before,))
    fetching.start()
    gate.seen.append("begun")
    before.set()
    gate.opened.set()
    fetching.join()
    assert gate.seen[:3] == ["begun", "asked", "answered"]
    assert arriving.begun.is_set()


@pytest.mark.parametrize("part", [1, 511, 512, 1000])
def test_a_buckets_shard_reads_alike_in_whatever_parts_it_comes(
    slow_shard: tuple[ShardFile, Gate], monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    file, gate = slow_shard
    assert file.size is not None
    gate.opened.set()
    whole = objects.read(file.url)
    monkeypatch.setattr(reading, "PART", part)
    arriving = reading._Arriving(file, file.size, threading.Event())
    arriving.fetch(begun())
    places = [*range(0, file.size, 700), file.size, file.size + 512]
    assert [arriving[place : place + 690] for place in places] == [whole[place : place + 690] for place in places]
    early = reading._Arriving(file, file.size, threading.Event())
    early.fetch(begun())
    assert early[file.size : file.size + 512] == b""


def test_a_buckets_shard_that_cannot_come_does_not_hold_up_the_one_after_it(object_store: str) -> None:
    missing = reading._Arriving(ShardFile("gs://trainer-test/none.tar", 1024), 1024, threading.Event())
    missing.fetch(begun())
    assert missing.begun.is_set()
    assert "There is no object" in refused(lambda: missing[0:512])


def test_a_buckets_shard_that_nobody_reads_any_more_is_not_fetched_on(slow_shard: tuple[ShardFile, Gate]) -> None:
    file, _ = slow_shard
    assert file.size is not None
    closed = threading.Event()
    closed.set()
    arriving = reading._Arriving(file, file.size, closed)
    arriving.fetch(begun())  # or it would wait at the gate for ever
    assert "is not read any more" in refused(lambda: arriving[0:512])


def test_a_buckets_shard_of_another_size_than_its_manifest_says_gives_no_sample(
    slow_shard: tuple[ShardFile, Gate],
) -> None:
    file, gate = slow_shard
    assert file.size is not None
    gate.opened.set()
    for wrong in (file.size - 512, file.size + 512):
        for samples in reading.read_shards([ShardFile(file.url, wrong)]):
            said = refused(lambda: next(samples))  # noqa: B023
            assert f"it has {file.size} bytes, its manifest says {wrong}" in said
