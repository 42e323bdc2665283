from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

webdataset = pytest.importorskip("webdataset", reason="the trainer's packages are not installed")

from webdataset.tariterators import group_by_keys, tar_file_expander  # noqa: E402

from trainer import images, objects, shards  # noqa: E402
from trainer.errors import TrainerError  # noqa: E402
from trainer.manifest import MANIFEST, Manifest  # noqa: E402

CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def samples_of(directory: Path, manifest: Manifest, split: str) -> list[dict[str, object]]:
    samples: list[dict[str, object]] = []
    for shard in manifest.splits[split]:
        with (directory / shard.name).open("rb") as stream:
            members = tar_file_expander([{"url": shard.name, "stream": stream}])
            samples += webdataset.filters.decode("rgb8")(group_by_keys(members))
    return samples


def make(source: images.Source, out: Path, per_shard: int = 4, seed: int = 3, **repeat: int) -> Manifest:
    return shards.make(source, str(out), samples_per_shard=per_shard, repeat=repeat, seed=seed, tell=lambda _: None)


def cifar_archive(path: Path, rows: int = 4) -> np.ndarray:
    """An archive laid out as cifar-10-python.tar.gz is, pickled as it is, with noise for images."""
    pixels = np.random.default_rng(5).integers(0, 256, (6 * rows, 3072), dtype=np.uint8)
    files: dict[str, object] = {
        "batches.meta": {b"label_names": [name.encode() for name in CIFAR_CLASSES], b"num_vis": 3072}
    }
    for number in range(6):
        name = f"data_batch_{number + 1}" if number < 5 else "test_batch"
        own = pixels[number * rows : (number + 1) * rows]
        labels = [(number + row) % 10 for row in range(rows)]
        files[name] = {b"batch_label": b"x", b"labels": labels, b"data": own, b"filenames": [b"a.png"] * rows}
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            raw = pickle.dumps(content, protocol=2)
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return pixels


def test_webdataset_reads_back_every_sample_once(tmp_path: Path) -> None:
    source = images.shapes(10, 3, 16, seed=1)
    manifest = make(source, tmp_path)
    count, sample_at = source.splits["train"]
    expected = sorted(
        (s.label, np.asarray(Image.open(io.BytesIO(s.content))).tobytes()) for s in map(sample_at, range(count))
    )
    read = samples_of(tmp_path, manifest, "train")
    assert sorted((int(s["cls"]), s["ppm"].tobytes()) for s in read) == expected
    assert [s["__key__"] for s in read] == [f"{n:07d}" for n in range(10)]


def test_the_manifest_tells_names_counts_sizes_and_checksums(tmp_path: Path) -> None:
    made = make(images.shapes(10, 3, 16, seed=1), tmp_path)
    read = Manifest.from_json((tmp_path / MANIFEST).read_bytes(), "there")
    assert read == made
    assert [(s.name, s.samples) for s in read.splits["train"]] == [
        ("shapes-train-000000.tar", 4),
        ("shapes-train-000001.tar", 4),
        ("shapes-train-000002.tar", 2),
    ]
    for shard in read.splits["train"] + read.splits["val"]:
        content = (tmp_path / shard.name).read_bytes()
        assert (shard.size, shard.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_same_arguments_make_the_same_bytes_and_another_seed_another_order(tmp_path: Path) -> None:
    first, again, other = (
        make(images.shapes(12, 2, 16, seed=1), tmp_path / name, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first == again
    assert first.splits["train"] != other.splits["train"]


def test_repeat_takes_each_sample_so_many_times_spread_over_the_shards(tmp_path: Path) -> None:
    manifest = make(images.shapes(6, 2, 16, seed=1), tmp_path, train=3)
    read = [s["ppm"].tobytes() for s in samples_of(tmp_path, manifest, "train")]
    assert len(read) == 18
    assert {read.count(content) for content in read} == {3}
    assert read[:6] != read[6:12]
    assert sum(shard.samples for shard in manifest.splits["val"]) == 2


def test_shapes_depend_on_the_seed_alone_and_have_all_ten_classes() -> None:
    (_, first), (_, again) = (images.shapes(20, 1, 16, seed=1).splits["train"] for _ in range(2))
    assert [first(n) for n in range(20)] == [again(n) for n in range(20)]
    assert [first(n).label for n in range(10)] == list(range(10))
    assert first(0).content != first(10).content


def test_cifar_10s_own_archive_becomes_shards(tmp_path: Path) -> None:
    pixels = cifar_archive(tmp_path / "cifar-10-python.tar.gz")
    manifest = make(images.cifar10(tmp_path / "cifar-10-python.tar.gz"), tmp_path / "out", per_shard=6)
    assert manifest.classes == tuple(CIFAR_CLASSES)
    assert [s.name for s in manifest.splits["val"]] == ["cifar-val-000000.tar"]
    for split, rows in (("train", slice(0, 20)), ("val", slice(20, 24))):
        read = samples_of(tmp_path / "out", manifest, split)
        planes = {s["ppm"].transpose(2, 0, 1).tobytes(): int(s["cls"]) for s in read}
        expected = {row.tobytes(): (n // 4 + n % 4) % 10 for n, row in list(enumerate(pixels))[rows]}
        assert planes == expected


def test_an_unpacked_cifar_archive_reads_alike(tmp_path: Path) -> None:
    cifar_archive(tmp_path / "cifar.tar.gz")
    with tarfile.open(tmp_path / "cifar.tar.gz") as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    packed, unpacked = (images.cifar10(tmp_path / name) for name in ("cifar.tar.gz", "unpacked"))
    assert [packed.splits["val"][1](n) for n in range(4)] == [unpacked.splits["val"][1](n) for n in range(4)]


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    cifar_archive(tmp_path / "c.tar.gz")
    with tarfile.open(tmp_path / "c.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(TrainerError, match="pathlib"):
        images.cifar10(tmp_path / "cifar-10-batches-py")


@pytest.mark.parametrize("content", [b"", b"no archive at all"])
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(content)
    with pytest.raises(TrainerError, match="cifar-10-python"):
        images.cifar10(path)


def test_a_tar_of_something_else_is_named_as_that(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other.tar", "w"):
        pass
    with pytest.raises(TrainerError, match="is not CIFAR-10's archive"):
        images.cifar10(tmp_path / "other.tar")


def picture(path: Path, colour: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 12), (colour, 0, 0)).save(path)
    return path.read_bytes()


def test_a_folder_of_class_folders_keeps_its_files_as_they_are(tmp_path: Path) -> None:
    contents = {
        picture(tmp_path / "pets" / "train" / "cat" / "1.JPEG", 10): (0, "jpg"),
        picture(tmp_path / "pets" / "train" / "dog" / "a.png", 20): (1, "png"),
    }
    picture(tmp_path / "pets" / "val" / "cat" / "2.jpg", 30)
    picture(tmp_path / "pets" / "val" / "dog" / "3.jpg", 40)
    (tmp_path / "pets" / "train" / "cat" / "notes.txt").write_text("not an image")
    source = images.folder(tmp_path / "pets", 0.0, seed=1)
    count, sample_at = source.splits["train"]
    assert source.classes == ("cat", "dog")
    assert {s.content: (s.label, s.extension) for s in map(sample_at, range(count))} == contents
    assert source.splits["val"][0] == 2


def test_a_part_is_set_apart_for_validation_where_there_is_none(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        for number in range(10):
            picture(tmp_path / label / f"{number}.png", number)
    splits = images.folder(tmp_path, 0.2, seed=1).splits
    assert {name: count for name, (count, _) in splits.items()} == {"train": 16, "val": 4}


def test_classes_that_differ_between_the_splits_are_named(tmp_path: Path) -> None:
    picture(tmp_path / "train" / "cat" / "1.png", 1)
    picture(tmp_path / "val" / "dog" / "1.png", 1)
    with pytest.raises(TrainerError, match="cat, dog"):
        images.folder(tmp_path, 0.1, seed=1)


def test_shards_that_are_there_are_not_overwritten_unasked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["shapes", "--out", str(tmp_path), "--train", "4", "--val", "2", "--size", "16"]
    assert shards.main(arguments) == 0
    assert "python -m trainer.train --data" in capfd.readouterr().out
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert shards.main(arguments) == 2
    assert "--overwrite" in capfd.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert shards.main([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["folder", "/nowhere/at/all"],
        ["cifar10", "/nowhere.tar.gz"],
        ["shapes", "--train", "0"],
        ["shapes", "--samples-per-shard", "0"],
        ["shapes", "--repeat", "0"],
    ],
)
def test_what_cannot_be_made_is_told_in_one_line(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shards.main([*arguments, "--out", str(tmp_path / "out")]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainerError, match="file"):
        make(images.shapes(4, 2, 16, seed=1), tmp_path / "file")


def test_shards_go_straight_into_a_bucket(object_store: str, tmp_path: Path) -> None:
    out = "gs://trainer-test/sets/shapes"
    local = make(images.shapes(10, 3, 16, seed=1), tmp_path)
    remote = shards.make(
        images.shapes(10, 3, 16, seed=1), out, samples_per_shard=4, repeat={}, seed=3, tell=lambda _: None
    )
    assert remote == local
    assert objects.matching(out, "*.tar") == [s.name for s in (*local.splits["train"], *local.splits["val"])]
    for shard in local.splits["train"]:
        assert objects.read(objects.join(out, shard.name)) == (tmp_path / shard.name).read_bytes()
    with pytest.raises(TrainerError, match="already holds"):
        shards.make(images.shapes(4, 2, 16, seed=1), out, samples_per_shard=4, repeat={}, seed=3)


def test_a_bucket_that_is_not_there_is_named(object_store: str) -> None:
    with pytest.raises(TrainerError, match="There is no bucket gs://no-such-bucket"):
        shards.make(images.shapes(4, 2, 16, seed=1), "gs://no-such-bucket/x", samples_per_shard=4, repeat={}, seed=3)


def test_a_manifest_of_another_schema_is_refused() -> None:
    with pytest.raises(TrainerError, match="schema 9"):
        Manifest.from_json('{"schema": 9}', "there")
    with pytest.raises(TrainerError, match="there is not a manifest"):
        Manifest.from_json("[]", "there")
