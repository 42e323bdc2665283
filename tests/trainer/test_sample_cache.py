"""Samples that were read once come from memory in later epochs: the same ones, and no more than there is room for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from tests.trainer.small_shards import config, ppm, shard
from trainer.data import pipeline, sample_cache
from trainer.data.pipeline import Dataset, ShardSet
from trainer.data.sample_cache import SampleCache
from trainer.distributed import memory_check
from trainer.distributed.memory_check import MIB


def _shard(path: Path, values: range) -> str:
    return shard(path, [(ppm(value), value % 10) for value in values])


def _epochs(
    shards: str, held: SampleCache | None, *, loaders: int = 0, first: int = 0
) -> list[list[tuple[bytes, list[int]]]]:
    cfg = config(batch=4, loader_workers=loaders, train=shards, classes=10)
    found = Dataset(pipeline.find(cfg, world=1).train, None, 10, 32)
    read: list[object] = []
    for epoch in range(1, 5):
        _, batches = pipeline.train_epoch(cfg, found, 0, 1, epoch, first, held)
        read.append([(pixels.numpy().tobytes(), labels.tolist()) for pixels, labels in batches])
    return read


@pytest.mark.parametrize("first", [0, 3])
def test_later_epochs_are_the_same_from_memory_as_read_anew(numbered: str, first: int) -> None:
    assert _epochs(numbered, SampleCache(64), first=first) == _epochs(numbered, None, first=first)


def test_a_shard_is_read_once_and_the_files_may_go(tmp_path: Path) -> None:
    files = [_shard(tmp_path / f"{number}.tar", range(8 * number, 8 * number + 8)) for number in range(4)]
    cfg = config(batch=4, train=str(tmp_path / "{0..3}.tar"), classes=10)
    found = Dataset(pipeline.find(cfg, world=1).train, None, 10, 32)
    held = SampleCache(64)
    first = [labels.tolist() for _, labels in pipeline.train_epoch(cfg, found, 0, 1, 1, 0, held)[1]]
    for file in files:
        Path(file).unlink()
    again = [labels.tolist() for _, labels in pipeline.train_epoch(cfg, found, 0, 1, 1, 0, held)[1]]
    assert again == first


def test_what_does_not_fit_is_read_anew_and_the_rest_comes_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        _shard(tmp_path / f"{number}.tar", range(8 * number, 8 * number + 8))
    pattern = str(tmp_path / "{0..3}.tar")
    held = SampleCache(64)
    held._room = (
        2 * 8 * (sample_cache.SAMPLE_OVERHEAD_BYTES + 4096)
    )  # two shards of eight small images and their names
    assert _epochs(pattern, held) == _epochs(pattern, None)
    assert len(held._shards) == 2


def test_nothing_is_held_where_the_machine_has_little_memory_left(
    numbered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        memory_check, "read_machine_memory", lambda: memory_check.MachineMemory("boot", sample_cache.SPARED_MIB)
    )
    held = SampleCache(64)
    _epochs(numbered, held)
    assert not held._shards


def test_zero_holds_nothing(numbered: str) -> None:
    held = SampleCache(0)
    _epochs(numbered, held)
    assert not held._shards


def test_beside_loader_processes_nothing_is_held(numbered: str) -> None:
    held = SampleCache(64)
    assert _epochs(numbered, held, loaders=2)
    assert not held._shards


def test_a_damaged_shard_is_not_held(tmp_path: Path) -> None:
    whole = Path(_shard(tmp_path / "0.tar", range(8)))
    cut = Path(_shard(tmp_path / "1.tar", range(8, 16)))
    cut.write_bytes(cut.read_bytes()[:9999])
    cfg = config(batch=4, on_bad_shard="skip", train=str(whole), classes=10)
    held = SampleCache(64)
    found = Dataset(ShardSet((str(whole), str(cut)), (8, 8)), None, 10, 32)
    for epoch in (1, 2):
        assert sum(len(labels) for _, labels in pipeline.train_epoch(cfg, found, 0, 1, epoch, 0, held)[1]) == 16
    assert list(held._shards) == [str(whole)]


def test_half_a_shard_is_not_held_as_a_whole_one() -> None:
    held = SampleCache(64)
    samples: Iterator[dict[str, bytes]] = iter([{"cls": b"1"}, {"cls": b"2"}])
    noting = held.record("a.tar", 2, samples)
    next(noting)
    assert held.get("a.tar") is None
    next(noting)
    assert held.get("a.tar") == [{"cls": b"1"}, {"cls": b"2"}]
    assert held._room < 64 * MIB
