"""Tests of finding the training data: shards are found and counted, and refused when they cannot feed the run."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from tests.trainer.small_shards import config, counted, ppm, refused, shard, trained_values
from tests.trainer.storage_answers import answering
from trainer.data import dataset
from trainer.data.dataset import Dataset
from trainer.errors import TrainerError
from trainer.shards import (
    command,
    sources,
)
from trainer.shards.manifest import MANIFEST, UNFINISHED
from trainer.storage import objects


def test_a_directory_of_shards_is_described_by_its_manifest(shapes: str) -> None:
    assert "--classes 9 is too few: manifest.json lists 10" in refused(
        lambda: dataset.find(config(directory=shapes, classes=9), 1)
    )
    found = dataset.find(config(directory=shapes), world=2)
    assert found.train is not None
    assert found.val is not None
    assert (found.train.samples, found.val.samples, found.classes, found.image_size) == (256, 48, 10, 32)
    assert len(found.train.shards) == 8


def test_brace_and_star_patterns_work_in_a_bucket(object_store: str) -> None:
    for number in range(3):
        objects.write(f"gs://trainer-test/p/t-{number}.tar", b"")
    expected = tuple(f"gs://trainer-test/p/t-{number}.tar" for number in range(3))
    assert (
        dataset.expand("gs://trainer-test/p/t-{0..2}.tar")
        == dataset.expand("gs://trainer-test/p/t-*.tar")
        == expected
    )
    with pytest.raises(TrainerError, match=r"1 of 4 shards are missing, the first is .*t-3"):
        dataset.expand("gs://trainer-test/p/t-{0..3}.tar")
    with pytest.raises(TrainerError, match="No shards match"):
        dataset.expand("gs://trainer-test/q/t-{0..3}.tar")
    with pytest.raises(TrainerError, match="no bucket gs://nowhere"):
        dataset.expand("gs://nowhere/t-{0..3}.tar")


def test_a_command_can_be_a_shard(numbered: str, tmp_path: Path) -> None:
    first = dataset.expand(numbered)[0]
    cfg = config(batch=4, train=f"pipe:cat {first}", classes=10)
    found = dataset.find(cfg, world=1)
    assert found.train == counted([f"pipe:cat {first}"], [10])
    assert len(trained_values(cfg, Dataset(found.train, None, 10, 32), 0, 1)) == 8


def test_shards_may_be_compressed_and_a_cut_off_one_is_named(shapes: str, tmp_path: Path) -> None:
    sources = [Path(shapes) / f"shapes-train-{number:06d}.tar" for number in range(2)]
    for source in sources:
        (tmp_path / f"{source.name}.gz").write_bytes(gzip.compress(source.read_bytes()))
    cfg = config(batch=4, train=f"{tmp_path}/*.tar.gz", classes=10, image_size=32)
    found = dataset.find(cfg, world=1)
    assert found.train is not None
    assert found.train.counts == (32, 32)
    plain = config(batch=4, train=f"{shapes}/shapes-train-{{000000..000001}}.tar", classes=10)
    assert trained_values(cfg, found, 0, 1) == trained_values(plain, dataset.find(plain, world=1), 0, 1)
    cut = tmp_path / f"{sources[1].name}.gz"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    with pytest.raises(TrainerError, match=r"Shard .*1\.tar\.gz is damaged or cut off"):
        dataset.find(cfg, world=1)


def test_a_batch_of_one_small_image_is_refused_for_models_with_batch_normalisation() -> None:
    cfg = config(batch=1, fake=True, image_size=32)
    with pytest.raises(TrainerError, match="--batch-size 1 is too small for resnet50 and images of 32 pixels"):
        dataset.find(cfg, world=1)
    assert dataset.find(config(batch=1, fake=True, image_size=33), world=1).image_size == 33
    assert dataset.find(replace(cfg, model="tiny-batchnorm"), world=1).image_size == 32


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="The command of pipe:exit 3 failed: exit code 3"):
        dataset.find(config(train="pipe:exit 3", classes=10), world=1)


def forbidding(_: str) -> tuple[int, bytes]:
    """Answer as to an account that may not read a bucket."""
    return 403, b'{"error": {"code": 403, "message": "x@y.iam does not have storage.objects.get access"}}'


def test_a_bucket_that_may_not_be_read_is_reported_with_the_role_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering(monkeypatch, forbidding):
        for ask in (
            lambda: objects.list_names("gs://forbidden/x"),
            lambda: objects.read("gs://forbidden/x"),
            lambda: dataset.expand("gs://forbidden/x/{0..3}.tar"),
            lambda: dataset.find(config(directory="gs://forbidden/x"), 1),
        ):
            assert re.match(r"No permission for gs://forbidden/x.*objects.get access.*roles/storage", refused(ask))


def test_a_pattern_with_unmatched_braces_is_refused() -> None:
    assert "is not a pattern of shards" in refused(lambda: dataset.expand("/x/t-{0..3.tar"))


def test_a_pattern_of_commands_is_one_command_per_shard(numbered: str) -> None:
    cfg = config(batch=4, train=f"pipe:cat {numbered}", classes=10)
    found = dataset.find(cfg, world=1)
    assert found.train is not None
    assert found.train.counts == (10, 3, 17, 12)
    assert len(set(trained_values(cfg, Dataset(found.train, None, 10, 32), 0, 1))) == 40


def test_classes_that_differ_between_the_patterns_are_named(tmp_path: Path) -> None:
    for name, classes in (("a", ("cat", "dog")), ("b", ("cat", "fox")), ("c", ("dog", "cat"))):
        source = sources.ImageSource(
            "pets", classes, 32, {"train": (4, lambda n: sources.ImageSample(ppm(n), "ppm", n % 2))}
        )
        command.make(source, str(tmp_path / name), samples_per_shard=4, repeat={}, seed=1)
    train = f"{tmp_path}/a/pets-train-000000.tar"
    for other, says in (("b", "dog, fox"), ("c", "in another order")):
        cfg = config(batch=2, train=train, val=f"{tmp_path}/{other}/pets-train-000000.tar")
        assert says in refused(lambda: dataset.find(cfg, 1))  # noqa: B023
    assert dataset.find(config(batch=2, train=train, val=train), 1).classes == 2


def test_fewer_shards_than_loader_processes_work_and_that_is_reported(
    shapes: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cfg = config(batch=8, directory=shapes, loader_workers=3)
    found = dataset.find(cfg, 4)
    printed = capfd.readouterr().out
    assert "8 training shards feed 2 loader processes on each of 4 cores, not 3" in printed
    assert "--samples-per-shard" in printed
    assert len(trained_values(cfg, found, 3, 4)) == 64
    dataset.find(config(batch=8, directory=shapes, loader_workers=2), 4)
    assert "feed" not in capfd.readouterr().out


def test_unfinished_shards_are_reported_as_unfinished(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).write_text("{}")
    assert "never finished" in refused(lambda: dataset.find(config(directory=str(tmp_path)), 1))


def test_fewer_shards_than_cores_are_refused_with_a_remedy(shapes: str) -> None:
    assert "8 training shards are too few for 9 cores" in refused(lambda: dataset.find(config(directory=shapes), 9))
    assert "--samples-per-shard" in refused(lambda: dataset.find(config(directory=shapes), 9))


def test_a_batch_larger_than_a_ranks_share_is_refused(shapes: str) -> None:
    assert dataset.find(config(batch=64, directory=shapes), 4).train is not None
    assert "A batch of 65 is more than each of 4 cores gets" in refused(
        lambda: dataset.find(config(batch=65, directory=shapes), 4)
    )


def test_a_validation_set_without_a_sample_is_refused_at_the_start(shapes: str, tmp_path: Path) -> None:
    train = f"{shapes}/shapes-train-*.tar"
    empty = shard(tmp_path / "val.tar", [])
    text = refused(lambda: dataset.find(config(train=train, val=empty), 1))
    assert text == f"There are no validation samples in {empty}. Leave --val-shards out, or name some that hold any."
    Path(empty).write_bytes(b"no shard")
    text = refused(lambda: dataset.find(config(train=train, val=empty, on_bad_shard="skip"), 1))
    assert text.startswith(f"There are no validation samples in {empty}")


def test_a_target_that_no_validation_can_reach_is_refused_at_the_start(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    manifest = tmp_path / "set" / MANIFEST
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "splits": {"train": document["splits"]["train"]}}))
    without = config(directory=str(tmp_path / "set"))
    assert dataset.find(without, 1).val is None
    text = refused(lambda: dataset.find(replace(without, target_accuracy=50.0), 1))
    assert text.startswith(
        f"There is no accuracy without validation shards in {tmp_path}/set. Leave --target-accuracy"
    )


def test_places_without_shards_are_named(tmp_path: Path) -> None:
    assert "no directory /nowhere" in refused(lambda: dataset.find(config(directory="/nowhere"), 1))
    assert "no manifest.json" in refused(lambda: dataset.find(config(directory=str(tmp_path)), 1))
    assert "No shards match" in refused(lambda: dataset.find(config(train=f"{tmp_path}/*.tar"), 1))


def test_each_directorys_manifest_lists_its_own_shards(tmp_path: Path) -> None:
    """Shards in different directories may have the same names: `{a,b}/pets-train-000000.tar`."""
    for name, count in (("a", 4), ("b", 6)):
        source = sources.ImageSource(
            "pets", ("cat", "dog"), 32, {"train": (count, lambda n: sources.ImageSample(ppm(n), "ppm", 1))}
        )
        command.make(source, str(tmp_path / name), samples_per_shard=8, repeat={}, seed=1)
    (tmp_path / "c").mkdir()
    shutil.copy(tmp_path / "b" / "pets-train-000000.tar", tmp_path / "c")
    cfg = config(batch=2, train=f"{tmp_path}/{{a,b,c}}/pets-train-{{000000..000000}}.tar")
    found = dataset.find(cfg, 1)
    assert found.train is not None
    assert found.train.counts == (4, 6, 6)
    assert [shard.is_listed for shard in found.train.shards] == [True, True, False]
    assert len(trained_values(cfg, found, 0, 1)) == 16


def test_a_manifest_of_another_program_beside_shards_named_by_a_pattern_is_ignored(
    shapes: str, tmp_path: Path
) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    (tmp_path / "set" / MANIFEST).write_text('{"name": "a page", "icons": []}')
    found = dataset.find(config(train=f"{tmp_path}/set/shapes-train-*.tar", classes=10), 1)
    assert found.train is not None
    assert (found.train.samples, found.train.shards[0].is_listed) == (256, False)


def test_a_set_of_one_class_is_refused(tmp_path: Path) -> None:
    """As made from the folder above the class folders' parent."""
    source = sources.ImageSource(
        "pets", ("all",), 32, {"train": (4, lambda n: sources.ImageSample(ppm(n), "ppm", 0))}
    )
    command.make(source, str(tmp_path), samples_per_shard=8, repeat={}, seed=1)
    text = refused(lambda: dataset.find(config(batch=2, directory=str(tmp_path)), 1))
    assert text.startswith(f"There is only one class in {tmp_path}. Make the shards from a directory that holds")


def test_an_invalid_pattern_of_shards_is_refused_with_a_valid_one(shapes: str) -> None:
    assert refused(lambda: dataset.expand(shapes)) == f"{shapes} is a directory. Write {shapes}/*.tar."
    text = refused(lambda: dataset.expand(f"{Path(shapes).parent}/*/x.tar"))
    assert "has * or ? in the name of a directory. Write directories in braces" in text
    assert "gs://b names a bucket and no shards. Write" in refused(lambda: dataset.expand("gs://b"))
    assert objects.parent("/x.tar") == "/"
    assert objects.parent("x.tar") == "."


def test_a_missing_shard_that_the_manifest_lists_is_named(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    (tmp_path / "set" / "shapes-train-000003.tar").unlink()
    text = refused(lambda: dataset.find(config(directory=str(tmp_path / "set")), 1))
    assert "1 of 8 train shards are missing" in text
    assert "shapes-train-000003.tar" in text


@pytest.mark.parametrize("name", ["../secret.tar", "a/../../secret.tar", "/etc/secret.tar", "", ".."])
def test_a_manifest_that_names_shards_outside_its_directory_is_refused(
    shapes: str, tmp_path: Path, name: str
) -> None:
    """Also with missing shards skipped, which are read without having been listed."""
    shutil.copytree(shapes, tmp_path / "set")
    path = tmp_path / "set" / MANIFEST
    content = json.loads(path.read_text())
    content["splits"]["train"][0]["name"] = name
    path.write_text(json.dumps(content))
    for given in ({"directory": str(tmp_path / "set"), "on_bad_shard": "skip"}, {"train": f"{tmp_path}/set/*.tar"}):
        text = refused(lambda: dataset.find(config(**given), 1))  # noqa: B023
        assert text.startswith(f"{path} is not a manifest of shards: {name!r} is not below its directory. ")


def test_making_and_splitting_shards_needs_no_torch() -> None:
    modules = "trainer.config, trainer.progress, trainer.data.sharding, trainer.shards.manifest, trainer.shards"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
