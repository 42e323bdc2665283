"""Tests of the sources of shards: CIFAR-10's own archive, folders of class folders, drawn shapes."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

webdataset = pytest.importorskip("webdataset", reason="the trainer's packages are not installed")

from tests.trainer.shard_sets import make, samples_of
from trainer.errors import TrainerError
from trainer.shards import (
    command,
    image_folder,
    sources,
)
from trainer.shards.manifest import MANIFEST, Manifest

CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Pickles as Python 2 wrote them for CIFAR-10: text is bytes, and numpy's modules have their old names."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_bytes(self, content: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)  # type: ignore[attr-defined]
        self.memoize(content)  # type: ignore[attr-defined]

    dispatch[bytes] = save_bytes


def python2_pickle(content: object) -> bytes:
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(content)
    return stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def cifar_archive(path: Path, rows: int = 4) -> np.ndarray:
    """Write an archive laid out and pickled as cifar-10-python.tar.gz, with noise as images."""
    pixels = np.random.default_rng(5).integers(0, 256, (6 * rows, 3072), dtype=np.uint8)
    files: dict[str, object] = {
        "batches.meta": {
            b"num_cases_per_batch": rows,
            b"label_names": [name.encode() for name in CIFAR_CLASSES],
            b"num_vis": 3072,
        }
    }
    for number in range(6):
        name = f"data_batch_{number + 1}" if number < 5 else "test_batch"
        own = pixels[number * rows : (number + 1) * rows]
        labels = [(number + row) % 10 for row in range(rows)]
        label = b"training batch %d of 5" % (number + 1) if number < 5 else b"testing batch 1 of 1"
        files[name] = {b"batch_label": label, b"labels": labels, b"data": own, b"filenames": [b"a.png"] * rows}
    with tarfile.open(path, "w:gz") as tar:
        folder = tarfile.TarInfo("cifar-10-batches-py")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        page = tarfile.TarInfo("cifar-10-batches-py/readme.html")
        page.size = 6
        tar.addfile(page, io.BytesIO(b"<html>"))
        for name, content in files.items():
            raw = python2_pickle(content)
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return pixels


def test_shapes_depend_on_the_seed_alone_and_have_all_ten_classes() -> None:
    (_, first), (_, again) = (sources.shapes(20, 1, 16, seed=1).splits["train"] for _ in range(2))
    assert [first(n) for n in range(20)] == [again(n) for n in range(20)]
    assert [first(n).label for n in range(10)] == list(range(10))
    assert first(0).content != first(10).content


def test_cifar_10s_own_archive_becomes_shards(tmp_path: Path) -> None:
    pixels = cifar_archive(tmp_path / "cifar-10-python.tar.gz")
    manifest = make(sources.cifar10(tmp_path / "cifar-10-python.tar.gz"), tmp_path / "out", per_shard=6)
    assert manifest.classes == tuple(CIFAR_CLASSES)
    assert [s.name for s in manifest.splits["val"]] == ["cifar-val-000000.tar"]
    for split, rows in (("train", slice(0, 20)), ("val", slice(20, 24))):
        read = samples_of(tmp_path / "out", manifest, split)
        planes = {s["ppm"].transpose(2, 0, 1).tobytes(): int(s["cls"]) for s in read}  # type: ignore[attr-defined]
        expected = {row.tobytes(): (n // 4 + n % 4) % 10 for n, row in list(enumerate(pixels))[rows]}
        assert planes == expected


def test_an_unpacked_cifar_archive_reads_the_same(tmp_path: Path) -> None:
    cifar_archive(tmp_path / "cifar.tar.gz")
    with tarfile.open(tmp_path / "cifar.tar.gz") as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    packed, unpacked = (sources.cifar10(tmp_path / name) for name in ("cifar.tar.gz", "unpacked"))
    assert [packed.splits["val"][1](n) for n in range(4)] == [unpacked.splits["val"][1](n) for n in range(4)]


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    cifar_archive(tmp_path / "c.tar.gz")
    with tarfile.open(tmp_path / "c.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(TrainerError, match="pathlib"):
        sources.cifar10(tmp_path / "cifar-10-batches-py")


@pytest.mark.parametrize("content", [b"", b"no archive at all"])
def test_a_file_that_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(content)
    with pytest.raises(TrainerError, match="cifar-10-python"):
        sources.cifar10(path)


def test_an_archive_that_is_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    cifar_archive(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for content in (whole[:middle], whole[:middle] + bytes(40) + whole[middle + 40 :]):
        path.write_bytes(content)
        with pytest.raises(TrainerError, match=r"Cannot read CIFAR-10 from .*Download it again|is damaged"):
            sources.cifar10(path)


def test_an_archive_that_is_cut_off_between_two_files_is_named(tmp_path: Path) -> None:
    cifar_archive(tmp_path / "whole.tar.gz")
    cut = tmp_path / "cut.tar"
    with tarfile.open(tmp_path / "whole.tar.gz") as whole:
        last = whole.getmembers()[-1]
    cut.write_bytes(gzip.decompress((tmp_path / "whole.tar.gz").read_bytes())[: last.offset])
    with pytest.raises(TrainerError, match=r"Cannot read CIFAR-10 from .*cut\.tar: it ends without .* Download"):
        sources.cifar10(cut)


def test_a_label_beyond_the_last_class_is_named_before_shards_are_made_of_it(tmp_path: Path) -> None:
    cifar_archive(tmp_path / "c.tar.gz")
    with tarfile.open(tmp_path / "c.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    batch = {b"data": [0] * 3072, b"labels": [10]}
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(batch))
    with pytest.raises(TrainerError, match="labels from 10 to 10, but 10 classes"):
        sources.cifar10(tmp_path / "cifar-10-batches-py")


def test_cifar_100_is_distinguished_from_an_archive_of_something_else(tmp_path: Path) -> None:
    for name in ("train", "test", "meta"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(TrainerError, match=r"is not CIFAR-10's archive: it is CIFAR-100's"):
        sources.cifar10(tmp_path)


def test_a_tar_of_something_else_is_named_as_that(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other.tar", "w"):
        pass
    with pytest.raises(TrainerError, match="is not CIFAR-10's archive"):
        sources.cifar10(tmp_path / "other.tar")


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
    source = image_folder.folder(tmp_path / "pets", 0.0, seed=1)
    count, sample_at = source.splits["train"]
    assert source.classes == ("cat", "dog")
    assert {s.content: (s.label, s.extension) for s in map(sample_at, range(count))} == contents
    assert source.splits["val"][0] == 2


@pytest.mark.parametrize(("train", "val"), [("Train", "Valid"), ("training", "testing")])
def test_the_folders_of_the_splits_may_have_other_common_names(tmp_path: Path, train: str, val: str) -> None:
    for number, name in enumerate((train, val)):
        picture(tmp_path / name / "cat" / "1.png", number)
    source = image_folder.folder(tmp_path, 0.0, seed=1)
    assert source.classes == ("cat",)
    assert {split: count for split, (count, _) in source.splits.items()} == {"train": 1, "val": 1}


def test_a_part_is_split_off_for_validation_when_there_is_no_validation_set(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        for number in range(10):
            picture(tmp_path / label / f"{number}.png", number)
    splits = image_folder.folder(tmp_path, 0.2, seed=1).splits
    assert {name: count for name, (count, _) in splits.items()} == {"train": 16, "val": 4}
    with pytest.raises(TrainerError, match=r"--val-fraction 0\.99 leaves no image to train on\. Give a smaller one"):
        image_folder.folder(tmp_path, 0.99, seed=1)


def test_classes_that_differ_between_the_splits_are_named(tmp_path: Path) -> None:
    picture(tmp_path / "train" / "cat" / "1.png", 1)
    picture(tmp_path / "val" / "dog" / "1.png", 1)
    with pytest.raises(TrainerError, match="cat, dog"):
        image_folder.folder(tmp_path, 0.1, seed=1)


def test_images_of_other_formats_and_in_folders_of_folders_become_samples(tmp_path: Path) -> None:
    for name in ("a.bmp", "deep/er/b.tiff", "c.gif", ".hidden.png"):
        picture(tmp_path / "in" / "cat" / name, 200)
    picture(tmp_path / "in" / ".cache" / "x.png", 1)
    (tmp_path / "in" / "cat" / "notes.txt").write_text("not an image")
    source = image_folder.folder(tmp_path / "in", 0.0, seed=1)
    count, sample_at = source.splits["train"]
    assert (source.classes, count) == (("cat",), 3)
    for sample in map(sample_at, range(count)):
        assert sample.extension == "png"
        colour = np.asarray(Image.open(io.BytesIO(sample.content)).convert("RGB"))[5, 5]
        assert abs(int(colour[0]) - 200) < 4
    assert source.notes == (f"Skipped 1 file without an image in {tmp_path / 'in'}",)


def test_pictures_of_16_bits_keep_what_is_on_them_and_of_unknown_range_are_refused(tmp_path: Path) -> None:
    levels = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    shares = (levels / levels.max()).astype(np.float32)  # shares of white; as integers they would all be black
    for bits, pixels in (("16", levels), ("32", levels.astype(np.int32)), ("float", shares)):
        (tmp_path / bits / "cat").mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / bits / "cat" / "a.tif")
    kinds = ("16", "32", "float")
    first, unknown, small = (image_folder.folder(tmp_path / bits, 0.0, seed=1).splits["train"][1] for bits in kinds)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(first(0).content)))[..., 0], levels // 256)
    with pytest.raises(TrainerError, match=r"cat/a\.tif: its values go from 0 to 65280, not from 0 to 255"):
        unknown(0)
    with pytest.raises(TrainerError, match=r"cat/a\.tif: its values go from 0 to 1, not from 0 to 255"):
        small(0)


def broken_png() -> bytes:
    """Return a PNG whose pixels are followed too early by bytes that are no chunk: PIL raises SyntaxError."""
    stream = io.BytesIO()
    Image.fromarray(np.arange(4800, dtype=np.uint16).astype(np.uint8).reshape(40, 40, 3) * 7).save(stream, "png")
    before, _, after = stream.getvalue().partition(b"IDAT")
    return before[:-4] + struct.pack(">I", 10) + b"IDAT" + after[:10] + bytes(40)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jpg", b"", "it is empty"),
        ("a.png", b"not an image", "not an image"),
        ("a.bmp", b"not an image", "PIL cannot decode it"),
        ("a.gif", broken_png(), "PIL cannot decode it"),
        ("a.jpg", None, "remature end"),
    ],
    ids=["empty", "no png", "no bmp", "a broken png by another name", "cut off"],
)
def test_a_file_that_cannot_be_decoded_is_named_or_left_out_by_name(
    tmp_path: Path, name: str, content: bytes | None, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        picture(tmp_path / "in" / "cat" / f"{number}.jpg", 9)
    bad = tmp_path / "in" / "cat" / name
    if content is None:
        Image.effect_noise((64, 64), 50).convert("RGB").save(bad)
    bad.write_bytes(bad.read_bytes()[:-20] if content is None else content)
    words = ["folder", str(tmp_path / "in"), "--val-fraction", "0", "--out", str(tmp_path / "out")]
    assert command.main(words) == 2
    err = capfd.readouterr().err
    assert str(bad) in err
    assert says in err
    assert "--on-bad-image skip" in err
    assert command.main([*words, "--on-bad-image", "skip", "--overwrite"]) == 0
    assert f"Left out. Cannot decode {bad}" in capfd.readouterr().err
    manifest = Manifest.from_json((tmp_path / "out" / MANIFEST).read_bytes(), "there")
    assert manifest.splits["train"][0].samples == len(samples_of(tmp_path / "out", manifest, "train")) == 5


def test_a_split_without_a_decodable_image_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in" / "cat").mkdir(parents=True)
    (tmp_path / "in" / "cat" / "empty.jpg").write_bytes(b"")
    words = ["folder", str(tmp_path / "in"), "--val-fraction", "0", "--out", str(tmp_path / "out")]
    assert command.main([*words, "--on-bad-image", "skip"]) == 2
    assert "The train split has no samples: none of its images can be decoded." in capfd.readouterr().err
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_a_class_without_images_is_named(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "1.png", 1)
    (tmp_path / "dog").mkdir()
    with pytest.raises(TrainerError, match=r"class folder .*dog is empty"):
        image_folder.folder(tmp_path, 0.0, seed=1)


def test_links_that_form_a_loop_are_not_followed_and_each_image_is_taken_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        picture(tmp_path / "set" / name / "1.png", 10)
    picture(tmp_path / "elsewhere" / "2.png", 20)
    for number in range(2):
        (tmp_path / "set" / "a" / f"itself{number}").symlink_to(".")
        (tmp_path / "set" / "a" / f"above{number}").symlink_to("..")
    (tmp_path / "set" / "a" / "more").symlink_to(tmp_path / "elsewhere")
    source = image_folder.folder(tmp_path / "set", 0.0, 1)
    count, sample_at = source.splits["train"]
    assert sorted(sample_at(index).label for index in range(count)) == [0, 0, 1]


def test_a_link_to_a_missing_file_is_named_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").symlink_to("/nowhere.jpg")
    _, sample_at = image_folder.folder(tmp_path, 0.0, 1).splits["train"]
    with pytest.raises(
        sources.UnreadableImageError, match=r"Cannot read .*/1.jpg: No such file.*--on-bad-image skip"
    ):
        sample_at(0)


def test_a_named_pipe_with_the_name_of_an_image_is_not_read(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "1.png", 10)
    os.mkfifo(tmp_path / "a" / "2.png")
    source = image_folder.folder(tmp_path, 0.0, 1)
    assert source.splits["train"][0] == 1
    assert source.notes[0].startswith("Skipped 1 file without an image in ")
