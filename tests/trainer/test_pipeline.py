"""Tests of one rank's epoch: its samples, their order, and the same rest when it is resumed."""

from __future__ import annotations

import hashlib
import io
import multiprocessing.synchronize
import os
import random
import signal
import tarfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

torch = pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from tests.trainer.small_shards import config, counted, ppm, refused, shard, trained_on, trained_values
from trainer.data import (
    dataset,
    image_decode,
    loader_processes,
    pipeline,
    sharding,
)
from trainer.data.batching import PADDING, Batching
from trainer.data.dataset import Dataset
from trainer.errors import TrainerError
from trainer.storage import objects


@pytest.mark.parametrize("loaders", [0, 1, 2])
def test_every_rank_gets_equally_many_batches_and_no_sample_comes_twice(numbered: str, loaders: int) -> None:
    cfg = config(batch=4, loader_workers=loaders, train=numbered, classes=10)
    found = dataset.find(cfg, world=2)
    assert found.train == counted(dataset.expand(numbered), (10, 3, 17, 12))
    ranks = [trained_values(cfg, Dataset(found.train, None, 10, 32), rank, 2) for rank in (0, 1)]
    assert [len(values) for values in ranks] == [20, 20]
    assert len(set(ranks[0] + ranks[1])) == 40  # of 42 samples, two are dropped


def test_an_epochs_order_comes_from_the_seed_and_the_epoch(numbered: str) -> None:
    cfg = config(batch=4, train=numbered, classes=10)
    found = Dataset(dataset.find(cfg, world=1).train, None, 10, 32)
    first, again, second = (trained_values(cfg, found, 0, 1, epoch) for epoch in (1, 1, 2))
    assert first == again
    assert first != second
    assert first != sorted(first)


def test_steps_per_epoch_ends_an_epoch_early(numbered: str) -> None:
    cfg = config(batch=4, steps=2, train=numbered, classes=10)
    found = Dataset(dataset.find(cfg, world=2).train, None, 10, 32)
    assert [len(trained_values(cfg, found, rank, 2)) for rank in (0, 1)] == [8, 8]


@pytest.mark.parametrize("loaders", [0, 2])
def test_an_evaluation_sees_each_sample_once_and_pads_what_is_left(numbered: str, loaders: int) -> None:
    cfg = config(batch=8, loader_workers=loaders, train=numbered, val=numbered, classes=10)
    found = Dataset(None, dataset.find(cfg, world=4).val, 10, 32)
    seen = []
    numbers = set()
    for rank in range(4):
        batches = list(pipeline.evaluation(cfg, found, rank, 4))
        numbers.add(len(batches))
        for pixels, labels in batches:
            assert (pixels.shape, pixels.dtype, labels.shape) == ((8, 3, 32, 32), torch.uint8, (8,))
            for image, label in zip(pixels, labels.tolist(), strict=True):
                if label != PADDING:
                    seen.append(int(image[0, 0, 0]))
                    assert label == seen[-1] % 10
    assert sorted(seen) == list(range(42))
    assert numbers == {2}


def test_a_rank_without_any_sample_evaluates_padding(tmp_path: Path) -> None:
    url = shard(tmp_path / "v.tar", [(ppm(n), 0) for n in range(3)])
    cfg = config(batch=2, train=url, val=url, classes=10)
    found = Dataset(None, counted([url], [3]), 10, 32)
    labels = [[y.tolist() for _, y in pipeline.evaluation(cfg, found, rank, 5)] for rank in range(5)]
    assert labels == [[[0, PADDING]]] * 3 + [[[PADDING, PADDING]]] * 2


@pytest.mark.parametrize(("loaders", "first"), [(0, 3), (1, 1), (2, 1), (2, 6), (2, 7)])
def test_an_epoch_resumed_in_the_middle_continues_with_the_same_batches(
    numbered: str, loaders: int, first: int
) -> None:
    cfg = config(batch=4, loader_workers=loaders, train=numbered, classes=10)
    found = Dataset(dataset.find(cfg, world=1).train, None, 10, 32)
    whole, rest = (
        [(x.numpy().tobytes(), y.tolist()) for x, y in pipeline.train_epoch(cfg, found, 0, 1, 2, start)]
        for start in (0, first)
    )
    assert len(whole) == 10
    assert rest == whole[first:]


def test_samples_that_a_resumed_epoch_skips_are_not_decoded(tmp_path: Path) -> None:
    url = shard(tmp_path / "x.tar", [(b"no image", 0)] * 4 + [(ppm(n), 0) for n in range(4)])
    cfg = config(batch=2, train=url, classes=10, shuffle_buffer=1)
    found = trained_on([url], [8])
    assert "cannot be decoded" in refused(lambda: list(pipeline.train_epoch(cfg, found, 0, 1, 1, 1)))
    batches = pipeline.train_epoch(cfg, found, 0, 1, 1, 2)
    assert len(list(batches)) == 2


def test_the_first_batch_comes_before_the_shuffle_buffer_is_full(tmp_path: Path) -> None:
    url = shard(tmp_path / "x.tar", [(ppm(n % 10), 0) for n in range(100)])
    cfg = config(batch=2, train=url, classes=10, shuffle_buffer=200)
    found = trained_on([url], [120])
    batches = pipeline.train_epoch(cfg, found, 0, 1, 1)
    assert len(next(batches)[1]) == 2
    assert "holds 100 samples" in refused(lambda: list(batches))  # the error of the short shard comes only now


def test_long_names_in_extended_headers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as writer:
        for number in range(4):
            for extension, content in (("ppm", ppm(number)), ("cls", b"1")):
                name = "x" * (3 if number < 2 else 150)
                member = tarfile.TarInfo(f"{name}{number}.{extension}")
                member.size = len(content)
                writer.addfile(member, io.BytesIO(content))
    cfg = config(batch=4, train=str(path), classes=10)
    found = dataset.find(cfg, 1)
    assert found.train is not None
    assert found.train.samples == 4
    assert sorted(trained_values(cfg, found, 0, 1)) == [0, 1, 2, 3]


def test_shards_stream_from_a_bucket(object_store: str, shapes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "READ_BYTES", 64 * 1024)  # less than a shard, so that it takes several requests
    for path in Path(shapes).iterdir():
        objects.write(f"gs://trainer-test/streamed/{path.name}", path.read_bytes())
    local, remote = (config(directory=place) for place in (shapes, "gs://trainer-test/streamed"))
    epochs = []
    for cfg in (local, remote):
        batches = pipeline.train_epoch(cfg, dataset.find(cfg, world=2), 1, 2, epoch=3)
        epochs.append([(x.numpy().tobytes(), y.tolist()) for x, y in batches])
        assert len(epochs[-1]) == 16
    assert epochs[0] == epochs[1]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    world=st.integers(1, 3),
    batch=st.integers(1, 5),
    loaders=st.integers(0, 2),
    epoch=st.integers(1, 50),
)
def test_whatever_the_shards_cores_and_loaders_every_sample_is_seen_once_or_counted_as_dropped(
    tmp_path: Path, counts: list[int], world: int, batch: int, loaders: int, epoch: int
) -> None:
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    urls = [
        shard(tmp_path / f"{number}-{count}-{first}.tar", [(ppm(n), n % 10) for n in range(first, first + count)])
        for number, (first, count) in enumerate(zip(firsts, counts, strict=True))
    ]
    found = Dataset(counted(urls, counts), counted(urls, counts), 10, 32)
    cfg = config(batch=batch, loader_workers=loaders, train="x", val="x", classes=10)
    ranks = [trained_values(cfg, found, rank, world, epoch) for rank in range(world)]
    seen = [value for values in ranks for value in values]
    batches = sharding.train_batches(sum(counts), world, batch)
    assert {len(values) for values in ranks} == {batches * batch}
    assert len(seen) == len(set(seen)) == world * batches * batch
    tested, numbers = [], set()
    for rank in range(world):
        evaluated = list(pipeline.evaluation(cfg, found, rank, world))
        numbers.add(len(evaluated))
        tested += [int(x[0, 0, 0]) for xs, ys in evaluated for x, y in zip(xs, ys, strict=True) if int(y) != PADDING]
    assert len(numbers) == 1
    assert sorted(tested) == list(range(sum(counts)))


def test_grey_and_transparent_pictures_become_rgb(tmp_path: Path) -> None:
    encoded = []
    for mode in ("L", "RGBA", "P"):
        stream = io.BytesIO()
        Image.new(mode, (40, 40), 7).save(stream, "png")
        encoded.append((stream.getvalue(), 1))
    url = shard(tmp_path / "grey.tar", encoded, "png")
    cfg = config(batch=3, train=url, classes=10)
    batches = pipeline.train_epoch(cfg, trained_on([url], [3]), 0, 1, 1)
    assert [tuple(pixels.shape) for pixels, _ in batches] == [(3, 3, 32, 32)]


def test_encoded_and_raw_samples_keep_their_order() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (32, 32)).save(stream, "png")
    contents = {"png": stream.getvalue(), "ppm": ppm(7)}
    kinds = ["png", "png", "ppm", "ppm", "png", "ppm", "ppm", "png"]
    raw = [{"__key__": "k", "__url__": "u", kind: contents[kind], "cls": b"%d" % n} for n, kind in enumerate(kinds)]
    made = Batching(1, 32, 10, "seed").decode(raw)
    assert [int(label) for future in made for label in future.result()[1]] == list(range(8))


def test_the_samples_that_a_seed_gives_change_only_with_a_new_order_number(numbered: str) -> None:
    """Otherwise a resumed run would see some of an epoch's samples twice, and others never."""
    cfg = config(batch=4, train=numbered, classes=10, shuffle_buffer=12)
    found = Dataset(dataset.find(cfg, world=2).train, None, 10, 32)
    digest = hashlib.sha256()
    for epoch, rank in ((1, 0), (7, 1)):
        for pixels, labels in pipeline.train_epoch(cfg, found, rank, 2, epoch):
            digest.update(pixels.numpy().tobytes() + labels.numpy().tobytes())
    boxes = [image_decode.random_box(300, 200, random.Random(f"{seed}")) for seed in range(20)]
    digest.update(repr(boxes).encode())
    assert (pipeline.ORDER, digest.hexdigest()[:16]) == (2, "82ab68a110168362"), (
        "raise data.ORDER, and write both values here"
    )


class _ReportParent(torch.utils.data.IterableDataset):  # type: ignore[name-defined,type-arg]
    def __iter__(self) -> Iterator[tuple[int, bool]]:
        yield os.getppid(), {signal.getsignal(number) for number in loader_processes.STOPS} == {signal.SIG_IGN}


def test_a_loader_process_is_not_forked_from_the_training_and_ignores_stop_signals() -> None:
    """A child that is forked while another thread holds a lock can never take that lock."""
    [(parent, ignored)] = loader_processes.read(_ReportParent(), 1)
    assert parent != os.getpid()
    assert ignored


class _Killed(torch.utils.data.IterableDataset):  # type: ignore[name-defined,type-arg]
    def __init__(self, by: signal.Signals) -> None:
        self._by = by

    def __iter__(self) -> Iterator[int]:
        os.kill(os.getpid(), self._by)
        yield 0


class _KilledWithEventLocked(torch.utils.data.IterableDataset):  # type: ignore[name-defined,type-arg]
    def __iter__(self) -> Iterator[int]:
        end_event = next(
            frame.f_locals["done_event"]
            for frame, _ in traceback.walk_stack(None)
            if frame.f_code.co_name == "_worker_loop"
        )
        if isinstance(end_event, multiprocessing.synchronize.Event):  # torch's own event, which has a lock
            end_event._cond.acquire()  # type: ignore[attr-defined]
        end_event.is_set()
        os.kill(os.getpid(), signal.SIGKILL)
        yield 0


class _Broken(torch.utils.data.IterableDataset):  # type: ignore[name-defined,type-arg]
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("no such kernel")
        yield 0


def test_a_killed_loader_process_is_distinguished_from_an_error_in_one_and_blocks_no_other() -> None:
    """One is killed while it checks its end event: torch's own takes a lock that is needed to end the others."""
    reasons = {
        _Killed(signal.SIGKILL): "killed by the kernel if memory ran out",
        _Killed(signal.SIGBUS): "there is too little room in /dev/shm",
        _KilledWithEventLocked(): "killed by the kernel if memory ran out",
    }
    with ThreadPoolExecutor() as pool:  # torch looks for killed processes every 5 s only
        killed = {pool.submit(list, loader_processes.read(items, 2)): why for items, why in reasons.items()}
        with pytest.raises(RuntimeError, match="no such kernel"):
            list(loader_processes.read(_Broken(), 2))
        for each, why in killed.items():
            with pytest.raises(TrainerError, match=f"A loader process ended unexpectedly: {why}"):
                each.result()
