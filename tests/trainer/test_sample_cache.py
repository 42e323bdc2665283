"""Tests of the sample cache: later epochs get the same samples from memory, within the cache's limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from tests.trainer.small_shards import config, ppm, shard, trained_on
from trainer.data import dataset, pipeline, sample_cache
from trainer.data.dataset import Dataset
from trainer.data.sample_cache import SampleCache
from trainer.distributed import memory_check
from trainer.distributed.memory_check import MIB


def _shard(path: Path, values: range) -> str:
    return shard(path, [(ppm(value), value % 10) for value in values])


def _epochs(
    shards: str, cache: SampleCache | None, *, loaders: int = 0, first: int = 0
) -> list[list[tuple[bytes, list[int]]]]:
    cfg = config(batch=4, loader_workers=loaders, train=shards, classes=10)
    found = Dataset(dataset.find(cfg, world=1).train, None, 10, 32)
    read: list[object] = []
    for epoch in range(1, 5):
        batches = pipeline.train_epoch(cfg, found, 0, 1, epoch, first, cache)
        read.append([(pixels.numpy().tobytes(), labels.tolist()) for pixels, labels in batches])
    return read


@pytest.mark.parametrize("first", [0, 3])
def test_later_epochs_are_the_same_from_memory_as_from_files(numbered: str, first: int) -> None:
    assert _epochs(numbered, SampleCache(64), first=first) == _epochs(numbered, None, first=first)


def test_a_shard_is_read_once_and_its_file_may_be_removed_then(tmp_path: Path) -> None:
    files = [_shard(tmp_path / f"{number}.tar", range(8 * number, 8 * number + 8)) for number in range(4)]
    cfg = config(batch=4, train=str(tmp_path / "{0..3}.tar"), classes=10)
    found = Dataset(dataset.find(cfg, world=1).train, None, 10, 32)
    cache = SampleCache(64)
    first = [labels.tolist() for _, labels in pipeline.train_epoch(cfg, found, 0, 1, 1, 0, cache)]
    for file in files:
        Path(file).unlink()
    again = [labels.tolist() for _, labels in pipeline.train_epoch(cfg, found, 0, 1, 1, 0, cache)]
    assert again == first


def test_samples_that_do_not_fit_are_read_again_and_the_rest_comes_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        _shard(tmp_path / f"{number}.tar", range(8 * number, 8 * number + 8))
    pattern = str(tmp_path / "{0..3}.tar")
    cache = SampleCache(64)
    cache._room = (
        2 * 8 * (sample_cache.SAMPLE_OVERHEAD_BYTES + 4096)
    )  # room for two shards of eight small images and their names
    assert _epochs(pattern, cache) == _epochs(pattern, None)
    assert len(cache._shards) == 2


def test_nothing_is_cached_when_the_machine_has_little_memory_left(
    numbered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        memory_check, "read_machine_memory", lambda: memory_check.MachineMemory("boot", sample_cache.SPARED_MIB)
    )
    cache = SampleCache(64)
    _epochs(numbered, cache)
    assert not cache._shards


def test_a_limit_of_zero_caches_nothing(numbered: str) -> None:
    cache = SampleCache(0)
    _epochs(numbered, cache)
    assert not cache._shards


def test_nothing_is_cached_with_loader_processes(numbered: str) -> None:
    cache = SampleCache(64)
    assert _epochs(numbered, cache, loaders=2)
    assert not cache._shards


def test_a_damaged_shard_is_not_cached(tmp_path: Path) -> None:
    whole = Path(_shard(tmp_path / "0.tar", range(8)))
    cut = Path(_shard(tmp_path / "1.tar", range(8, 16)))
    cut.write_bytes(cut.read_bytes()[:9999])
    cfg = config(batch=4, on_bad_shard="skip", train=str(whole), classes=10)
    cache = SampleCache(64)
    found = trained_on([whole, cut], (8, 8))
    for epoch in (1, 2):
        assert sum(len(labels) for _, labels in pipeline.train_epoch(cfg, found, 0, 1, epoch, 0, cache)) == 16
    assert list(cache._shards) == [str(whole)]


def test_half_a_shard_is_not_cached_as_a_whole_one() -> None:
    cache = SampleCache(64)
    samples: Iterator[dict[str, bytes]] = iter([{"cls": b"1"}, {"cls": b"2"}])
    recorded = cache.record("a.tar", 2, samples)
    next(recorded)
    assert cache.get("a.tar") is None
    next(recorded)
    assert cache.get("a.tar") == [{"cls": b"1"}, {"cls": b"2"}]
    assert cache._room < 64 * MIB
