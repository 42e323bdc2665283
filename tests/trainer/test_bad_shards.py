"""Tests of missing, cut-off and damaged shards and unusable samples: each is named, or skipped and counted."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from tests.trainer import layouts
from tests.trainer.small_shards import config, counted, ppm, refused, shard, trained_on, trained_values
from trainer.config import TrainConfig
from trainer.data import dataset, pipeline
from trainer.data.batching import PADDING
from trainer.data.dataset import Dataset, ShardSet
from trainer.data.shard_reader import ShardFile, read_shard


def train_and_evaluate(train: TrainConfig, evaluation: TrainConfig, found: Dataset) -> tuple[list[int], int]:
    """Return the samples of an epoch, and the number of samples in an evaluation of the same shards."""
    batches = pipeline.evaluation(evaluation, Dataset(None, found.train, 10, 32), 0, 1)
    labels = torch.cat([labels for _, labels in batches])
    return trained_values(train, found, 0, 1), int((labels != PADDING).sum())


@pytest.mark.parametrize("loaders", [0, 2])
def test_a_bad_shard_can_be_skipped_and_counted_and_the_epoch_keeps_its_length(
    numbered: str, tmp_path: Path, loaders: int
) -> None:
    paths = [tmp_path / f"{number}.tar" for number in range(4)]
    for source, path in zip(dataset.expand(numbered), paths, strict=True):
        shutil.copy(source, path)
    paths[2].write_bytes(paths[2].read_bytes()[: 9 * 5120 + 700])
    found = trained_on(paths, (10, 3, 17, 12))
    given = {"loader_workers": loaders, "train": "x", "classes": 10, "on_bad_shard": "skip"}
    configs = config(batch=4, **given), config(batch=8, val="x", **given)
    values, evaluated = layouts.call(train_and_evaluate, *configs, found, err=tmp_path / "err")
    assert len(values) == 40
    lost = 40 - len(set(values))
    assert 6 <= lost <= 8  # of the 42 samples, two are dropped anyway
    assert evaluated == 42 - 8
    printed = re.findall(r"^Continued without (\d+) samples: Shard .*2\.tar is", (tmp_path / "err").read_text(), re.M)
    assert sum(map(int, printed)) == lost + 8


def test_a_missing_shard_can_be_skipped_too(shapes: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    (tmp_path / "set" / "shapes-train-000003.tar").unlink()
    cfg = config(directory=str(tmp_path / "set"), on_bad_shard="skip")
    assert len(trained_values(cfg, dataset.find(cfg, 1), 0, 1)) == 256
    assert "Continued without 32 samples: Cannot read" in capfd.readouterr().err


def test_skipping_bad_shards_is_an_error_when_all_are_bad(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar"
    bad.write_bytes(b"no shard at all" * 100)
    found = trained_on([bad] * 2, (8, 8))
    cfg = config(batch=4, train="x", classes=10, on_bad_shard="skip")
    assert "None of the shards can be read" in refused(lambda: trained_values(cfg, found, 0, 1))


def test_a_rank_that_can_read_none_of_its_shards_continues_with_others(tmp_path: Path) -> None:
    urls = [shard(tmp_path / f"{number}.tar", [(ppm(number), 1)] * 8) for number in range(3)]
    Path(urls[2]).unlink()
    found = trained_on(urls, (8, 8, 8))
    cfg = config(batch=4, train="x", classes=10, on_bad_shard="skip")
    seen = [trained_values(cfg, found, rank, 3) for rank in range(3)]
    assert [len(values) for values in seen] == [8, 8, 8]
    assert {value for values in seen for value in values} == {0, 1}


def test_missing_shards_of_a_brace_pattern_can_be_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in (0, 2):
        shard(tmp_path / f"{number}.tar", [(ppm(number), 1)] * 8)
    braces = f"{tmp_path}/{{0..2}}.tar"
    assert "1 of 3 shards are missing, the first is" in refused(
        lambda: dataset.find(config(batch=4, train=braces, classes=10), 1)
    )
    found = dataset.find(config(batch=4, train=braces, classes=10, on_bad_shard="skip"), 1)
    assert found.train is not None
    assert found.train.counts == (8, 8)
    assert re.match(r"Continued without a shard: Cannot read .*1\.tar: No such", capfd.readouterr().err)


def test_shards_are_compared_with_the_manifests_checksums_with_verify(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    path = tmp_path / "set" / "shapes-train-000005.tar"
    content = bytearray(path.read_bytes())
    content[700] ^= 1  # a pixel: only the checksum can detect it
    path.write_bytes(bytes(content))
    for verify in (False, True):
        cfg = config(directory=str(tmp_path / "set"), verify=verify)
        found = dataset.find(cfg, 1)
        if verify:
            text = refused(lambda: trained_values(cfg, found, 0, 1))  # noqa: B023
            assert "shapes-train-000005.tar is damaged: its checksum is not the one in the manifest" in text
        else:
            assert len(trained_values(cfg, found, 0, 1)) == 256


def test_a_shard_shorter_than_in_its_manifest_is_reported_with_both_sizes(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    path = tmp_path / "set" / "shapes-train-000005.tar"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1024])
    cfg = config(directory=str(tmp_path / "set"))
    text = refused(lambda: trained_values(cfg, dataset.find(cfg, 1), 0, 1))
    assert f"it has {size - 1024} bytes, its manifest says {size}" in text


@pytest.mark.parametrize("loaders", [0, 2])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda content: content[:2000], "damaged or cut off"),
        (lambda content: content[: len(content) // 2 + 100], "damaged or cut off"),
        (lambda content: content[: 6 * 5120] + bytes(1024), "holds 6 samples"),
        (lambda content: b"\x00" * 2000 + content[:-2000], "holds 0 samples"),
        (lambda content: content[:5120] + b"\xaa" * 5120, "there is something else in place of a header"),
        (lambda content: content.replace(b"P6\n", b"XX\n"), "cannot be decoded"),
        (lambda content: content.replace(b"P6\n", b"XX\n", 1), "Sample 0000000 of"),
    ],
)
def test_a_bad_shard_is_named_with_and_without_loader_processes(
    numbered: str, tmp_path: Path, loaders: int, spoil: Callable[[bytes], bytes], says: str
) -> None:
    content = Path(dataset.expand(numbered)[0]).read_bytes()
    bad = tmp_path / "bad.tar"
    bad.write_bytes(spoil(content))
    cfg = config(batch=2, loader_workers=loaders, train=str(bad), classes=10)
    found = trained_on([bad] * 2, (10, 10))
    text = refused(lambda: trained_values(cfg, found, 0, 1))
    assert says in text
    assert "bad.tar" in text
    assert "Traceback" not in text


def test_an_image_without_a_class_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path)) as writer:
        writer.write({"__key__": "lonely", "ppm": ppm(1)})
    cfg = config(batch=1, train=str(path), classes=10)
    text = refused(lambda: trained_values(cfg, trained_on([path], [1]), 0, 1))
    needed = "Make the shards again: a sample needs a field cls and an image such as jpg, and"
    hint = "its files have to lie one after another (tar --sort=name)"
    assert text == f"Sample lonely of {path} lacks a class or an image: it has ppm. {needed} {hint}."


def test_an_incomplete_sample_with_several_dots_in_its_names_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path)) as writer:
        writer.write({"__key__": "img", "v1.ppm": ppm(1), "v1.cls": 1})
    cfg = config(batch=1, train=str(path), classes=10)
    text = refused(lambda: trained_values(cfg, trained_on([path], [1]), 0, 1))
    assert "it has v1.cls, v1.ppm" in text
    assert text.endswith("and its name ends at the first dot.")


def test_a_shard_with_more_samples_than_in_its_manifest_is_reported(
    numbered: str, capfd: pytest.CaptureFixture[str]
) -> None:
    url = dataset.expand(numbered)[0]
    found = ShardSet((ShardFile(url, Path(url).stat().st_size, samples=9),) * 2)
    for loaders in (0, 1):
        cfg = config(batch=3, loader_workers=loaders, train="x", classes=10)
        text = refused(lambda: trained_values(cfg, Dataset(found, None, 10, 32), 0, 1))  # noqa: B023
        assert text.startswith(f"Shard {url} holds more than 9 samples: its manifest says 9. Make the shards again")
    cfg = config(batch=3, train="x", classes=10, on_bad_shard="skip")
    assert len(trained_values(cfg, Dataset(found, None, 10, 32), 0, 1)) == 18
    assert f"Continued: Shard {url} holds more than 9 samples" in capfd.readouterr().err
    cfg = config(batch=3, train="x", val="x", classes=10)
    assert "more than 9" in refused(lambda: list(pipeline.evaluation(cfg, Dataset(None, found, 10, 32), 0, 1)))


def test_with_bad_shards_skipped_unusable_samples_are_left_out_and_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A sample without an image, as in a shard cut off between two files, and one whose image cannot be decoded."""
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path), encoder=False) as writer:
        for number in range(8):
            image = b"<html>" if number == 2 else ppm(number)
            writer.write({"__key__": f"k{number}", "cls": b"1", **({} if number == 7 else {"ppm": image})})
    given = {"train": str(path), "val": str(path), "classes": 10}
    cfg = config(batch=4, on_bad_shard="skip", shuffle_buffer=1, **given)
    found = dataset.find(cfg, 1)
    assert set(trained_values(cfg, found, 0, 1)) == {0, 1, 3, 4, 5, 6}
    printed = capfd.readouterr().err.splitlines()
    assert sorted(printed) == [  # batches are decoded concurrently
        f"Continued without 1 sample: Sample k2 of {path} cannot be decoded: it is not an image that OpenCV knows.",
        f"Continued without 1 sample: Sample k7 of {path} lacks a class or an image: it has cls.",
    ]
    labels = torch.cat([y for _, y in pipeline.evaluation(cfg, found, 0, 1)])
    assert labels.tolist() == [1, 1, 1, PADDING, 1, 1, 1, PADDING]
    cfg = config(batch=1, on_bad_shard="skip", **given)
    assert "Sample k" in refused(lambda: trained_values(cfg, found, 0, 1))  # a batch needs at least one usable sample


def test_a_samples_json_may_hold_its_class(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path)) as writer:
        writer.write({"__key__": "a", "ppm": ppm(1), "json": {"label": 3, "width": 32}})
        writer.write({"__key__": "b", "ppm": ppm(1), "json": {"label": 4}, "cls": 5})
    cfg = config(batch=2, train=str(path), classes=10, shuffle_buffer=1)
    [(_, labels)] = pipeline.train_epoch(cfg, dataset.find(cfg, 1), 0, 1, 1)
    assert labels.tolist() == [3, 5]
    with webdataset.TarWriter(str(path)) as writer:
        writer.write({"__key__": "a", "ppm": ppm(1), "json": {"caption": "a cat"}})
    cfg = config(batch=1, train=str(path), classes=10)
    assert "it has json, ppm" in refused(lambda: trained_values(cfg, dataset.find(cfg, 1), 0, 1))


def test_a_class_beyond_the_last_is_named(tmp_path: Path) -> None:
    url = shard(tmp_path / "x.tar", [(ppm(1), 10)] * 4)
    cfg = config(batch=2, train=url, classes=10)
    assert "has class 10" in refused(lambda: trained_values(cfg, trained_on([url], [4]), 0, 1))


def test_a_class_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path), encoder=False) as writer:
        writer.write({"__key__": "odd", "ppm": ppm(1), "cls": b"cat"})
    cfg = config(batch=1, train=str(path), classes=10)
    text = refused(lambda: trained_values(cfg, trained_on([path], [1]), 0, 1))
    assert text == f"Sample odd of {path} has no class: b'cat' is not a whole number. Make the shards again."


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ppm": b"P6\n" + b"9" * 5000 + b" 1\n255\n" + bytes(100), "cls": b"1"}, "cannot be decoded: "),
        ({"ppm": b"P6\n30000 30000\n255\n" + bytes(100), "cls": b"1"}, "cannot be decoded: it has more than"),
        ({"ppm": ppm(1), "json": b"[" * 100_000}, "lacks a class or an image"),
        ({"ppm": ppm(1), "cls": b"9" * 5000}, "has no class"),
    ],
    ids=["digits", "pixels", "depth", "class"],
)
def test_a_sample_made_to_exhaust_its_reader_is_named(tmp_path: Path, fields: dict[str, bytes], says: str) -> None:
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path), encoder=False) as writer:
        writer.write({"__key__": "odd", **fields})
    cfg = config(batch=1, train=str(path), classes=10)
    text = refused(lambda: trained_values(cfg, trained_on([path], [1]), 0, 1))
    assert text.startswith(f"Sample odd of {path} {says}")


def test_an_unlisted_shard_that_cannot_be_counted_is_named_or_left_out(
    numbered: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, cut, empty = (tmp_path / f"{name}.tar" for name in ("whole", "cut", "empty"))
    content = Path(dataset.expand(numbered)[0]).read_bytes()
    for path, part in ((whole, content), (cut, content[:700]), (empty, b"")):
        path.write_bytes(part)
    for bad, why in ((cut, "damaged or cut off"), (empty, "it is empty")):
        pattern = f"{tmp_path}/{{whole,{bad.stem}}}.tar"
        text = refused(lambda: dataset.find(config(train=pattern, classes=10), 1))  # noqa: B023
        assert f"Shard {bad} is" in text
        assert why in text
        found = dataset.find(config(batch=2, train=pattern, classes=10, on_bad_shard="skip"), 1)
        assert found.train == counted([whole], [10])
        assert f"Continued without a shard: Shard {bad} is" in capfd.readouterr().err


def test_a_shard_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.tar")
    assert "0.tar: it is not a file" in refused(lambda: list(read_shard(ShardFile(str(tmp_path / "0.tar")))))
