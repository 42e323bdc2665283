from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

torch = pytest.importorskip("torch", reason="torch is not installed")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")

from trainer import data, images, objects, shards, split  # noqa: E402
from trainer.config import DataConfig, OptimizerConfig, TrainConfig  # noqa: E402
from trainer.data import PADDING, Dataset, ShardSet  # noqa: E402
from trainer.errors import TrainerError  # noqa: E402
from trainer.manifest import UNFINISHED  # noqa: E402


def config(batch: int = 8, loader_workers: int = 0, steps: int | None = None, **source: object) -> TrainConfig:
    return TrainConfig(
        data=DataConfig(loader_workers=loader_workers, **source),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(batch_size=batch),
        steps_per_epoch=steps,
    )


def shard(path: Path, samples: list[tuple[bytes, int]], extension: str = "ppm") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(shards.shard_bytes([images.Sample(content, extension, label) for content, label in samples], 0))
    return str(path)


def ppm(value: int, width: int = 32, height: int = 32) -> bytes:
    return b"P6\n%d %d\n255\n" % (width, height) + bytes([value]) * (3 * width * height)


def trained_values(cfg: TrainConfig, found: Dataset, rank: int, world: int, epoch: int = 1) -> list[int]:
    """The samples of one rank's epoch, known by their centre's brightness."""
    count, batches = data.train_epoch(cfg, found, rank, world, epoch)
    read = list(batches)
    assert len(read) == count
    return [int(image[0, 16, 16]) for batch, _ in read for image in batch]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four shards of 10, 3, 17 and 12 samples; sample n is n bright all over, of class n modulo 10."""
    directory = tmp_path_factory.mktemp("numbered")
    first = 0
    for number, count in enumerate((10, 3, 17, 12)):
        own = [(ppm(n), n % 10) for n in range(first, first + count)]
        shard(directory / f"n-train-{number:06d}.tar", own)
        first += count
    return str(directory / "n-train-{000000..000003}.tar")


def test_a_directory_of_shards_is_known_by_its_manifest(shapes: str) -> None:
    found = data.find(config(directory=shapes), world=2)
    assert found.train is not None
    assert found.val is not None
    assert (found.train.samples, found.val.samples, found.classes, found.image_size) == (256, 48, 10, 32)
    assert len(found.train.urls) == 8


@pytest.mark.parametrize("loaders", [0, 1, 2])
def test_every_rank_gets_equally_many_batches_and_no_sample_comes_twice(numbered: str, loaders: int) -> None:
    cfg = config(batch=4, loader_workers=loaders, train=numbered, classes=10)
    found = data.find(cfg, world=2)
    assert found.train is not None
    assert (found.train.urls, found.train.counts) == (data.expand(numbered), (10, 3, 17, 12))
    ranks = [trained_values(cfg, Dataset(found.train, None, 10, 32), rank, 2) for rank in (0, 1)]
    assert [len(values) for values in ranks] == [20, 20]
    assert len(set(ranks[0] + ranks[1])) == 40  # of 42: two are dropped


def test_an_epochs_order_comes_from_the_seed_and_the_epoch(numbered: str) -> None:
    cfg = config(batch=4, train=numbered, classes=10)
    found = Dataset(data.find(cfg, world=1).train, None, 10, 32)
    first, again, second = (trained_values(cfg, found, 0, 1, epoch) for epoch in (1, 1, 2))
    assert first == again
    assert first != second
    assert first != sorted(first)


def test_steps_per_epoch_ends_an_epoch_early(numbered: str) -> None:
    cfg = config(batch=4, steps=2, train=numbered, classes=10)
    found = Dataset(data.find(cfg, world=2).train, None, 10, 32)
    assert [len(trained_values(cfg, found, rank, 2)) for rank in (0, 1)] == [8, 8]


@pytest.mark.parametrize("loaders", [0, 2])
def test_an_evaluation_sees_each_sample_once_and_pads_what_is_left(numbered: str, loaders: int) -> None:
    cfg = config(batch=8, loader_workers=loaders, train=numbered, val=numbered, classes=10)
    found = Dataset(None, data.find(cfg, world=4).val, 10, 32)
    seen = []
    numbers = set()
    for rank in range(4):
        count, batches = data.evaluation(cfg, found, rank, 4)
        read = list(batches)
        numbers.add((count, len(read)))
        for pixels, labels in read:
            assert (pixels.shape, pixels.dtype, labels.shape) == ((8, 3, 32, 32), torch.uint8, (8,))
            for image, label in zip(pixels, labels.tolist(), strict=True):
                if label != PADDING:
                    seen.append(int(image[0, 0, 0]))
                    assert label == seen[-1] % 10
    assert sorted(seen) == list(range(42))
    assert numbers == {(2, 2)}


def test_a_rank_without_any_sample_evaluates_padding(tmp_path: Path) -> None:
    url = shard(tmp_path / "v.tar", [(ppm(n), 0) for n in range(3)])
    cfg = config(batch=2, train=url, val=url, classes=10)
    found = Dataset(None, ShardSet((url,), (3,)), 10, 32)
    labels = [[y.tolist() for _, y in data.evaluation(cfg, found, rank, 5)[1]] for rank in range(5)]
    assert labels == [[[0, PADDING]]] * 3 + [[[PADDING, PADDING]]] * 2


@pytest.mark.parametrize(("loaders", "first"), [(0, 3), (1, 1), (2, 1), (2, 6), (2, 7)])
def test_an_epoch_taken_up_in_the_middle_goes_on_with_the_same_batches(
    numbered: str, loaders: int, first: int
) -> None:
    cfg = config(batch=4, loader_workers=loaders, train=numbered, classes=10)
    found = Dataset(data.find(cfg, world=1).train, None, 10, 32)
    whole, rest = (
        [(x.numpy().tobytes(), y.tolist()) for x, y in data.train_epoch(cfg, found, 0, 1, 2, start)[1]]
        for start in (0, first)
    )
    assert len(whole) == 10
    assert rest == whole[first:]


def test_what_comes_before_the_middle_is_not_decoded(tmp_path: Path) -> None:
    url = shard(tmp_path / "x.tar", [(b"no image", 0)] * 4 + [(ppm(n), 0) for n in range(4)])
    cfg = config(batch=2, train=url, classes=10, shuffle_buffer=1)
    found = Dataset(ShardSet((url,), (8,)), None, 10, 32)
    assert "cannot be decoded" in refused(lambda: list(data.train_epoch(cfg, found, 0, 1, 1, 1)[1]))
    _, batches = data.train_epoch(cfg, found, 0, 1, 1, 2)
    assert len(list(batches)) == 2


def test_the_first_batch_comes_before_the_shuffle_buffer_is_full(tmp_path: Path) -> None:
    url = shard(tmp_path / "x.tar", [(ppm(n % 10), 0) for n in range(100)])
    cfg = config(batch=2, train=url, classes=10, shuffle_buffer=200)
    found = Dataset(ShardSet((url,), (120,)), None, 10, 32)
    _, batches = data.train_epoch(cfg, found, 0, 1, 1)
    assert len(next(batches)[1]) == 2
    assert "holds 100 samples" in refused(lambda: list(batches))  # which is met only now


@pytest.mark.parametrize("loaders", [0, 2])
def test_a_bad_shard_can_be_skipped_and_counted_and_no_rank_comes_short(
    numbered: str, tmp_path: Path, loaders: int, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"{number}.tar" for number in range(4)]
    for source, path in zip(data.expand(numbered), paths, strict=True):
        shutil.copy(source, path)
    paths[2].write_bytes(paths[2].read_bytes()[: 9 * 5120 + 700])
    found = Dataset(ShardSet(tuple(map(str, paths)), (10, 3, 17, 12)), None, 10, 32)
    cfg = config(batch=4, loader_workers=loaders, train="x", classes=10, on_bad_shard="skip")
    values = trained_values(cfg, found, 0, 1)
    assert len(values) == 40
    said = capfd.readouterr().err
    lost = sum(int(number) for number in re.findall(r"^Went on without (\d+) samples: Shard .*2\.tar is", said, re.M))
    assert 6 <= lost <= 8  # of the 42, two are dropped anyway
    assert len(set(values)) == 40 - lost
    cfg = config(batch=8, loader_workers=loaders, train="x", val="x", classes=10, on_bad_shard="skip")
    labels = torch.cat([y for _, y in data.evaluation(cfg, Dataset(None, found.train, 10, 32), 0, 1)[1]])
    assert int((labels != PADDING).sum()) == 42 - 8


def test_a_missing_shard_can_be_skipped_too(shapes: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    (tmp_path / "set" / "shapes-train-000003.tar").unlink()
    cfg = config(directory=str(tmp_path / "set"), on_bad_shard="skip")
    assert len(trained_values(cfg, data.find(cfg, 1), 0, 1)) == 256
    assert "Went on without 32 samples: Cannot read" in capfd.readouterr().err


def test_when_all_shards_are_bad_skipping_them_is_no_way_out(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar"
    bad.write_bytes(b"no shard at all" * 100)
    found = Dataset(ShardSet((str(bad),) * 2, (8, 8)), None, 10, 32)
    cfg = config(batch=4, train="x", classes=10, on_bad_shard="skip")
    assert "None of a loader's shards can be read" in refused(lambda: trained_values(cfg, found, 0, 1))


def test_shards_are_compared_with_the_manifests_checksums_when_asked(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    path = tmp_path / "set" / "shapes-train-000005.tar"
    content = bytearray(path.read_bytes())
    content[700] ^= 1  # a pixel: nothing else would tell
    path.write_bytes(bytes(content))
    for verify in (False, True):
        cfg = config(directory=str(tmp_path / "set"), verify=verify)
        found = data.find(cfg, 1)
        if verify:
            text = refused(lambda: trained_values(cfg, found, 0, 1))  # noqa: B023
            assert "shapes-train-000005.tar is damaged: its checksum is not the one in the manifest" in text
        else:
            assert len(trained_values(cfg, found, 0, 1)) == 256


def test_a_shard_that_is_shorter_than_its_manifest_says_is_told_with_both_sizes(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    path = tmp_path / "set" / "shapes-train-000005.tar"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1024])
    cfg = config(directory=str(tmp_path / "set"))
    text = refused(lambda: trained_values(cfg, data.find(cfg, 1), 0, 1))
    assert f"it has {size - 1024} bytes, its manifest says {size}" in text


def test_long_names_that_only_extended_headers_can_tell_are_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "long.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as writer:
        for number in range(4):
            for extension, content in (("ppm", ppm(number)), ("cls", b"1")):
                name = "x" * (3 if number < 2 else 150)
                member = tarfile.TarInfo(f"{name}{number}.{extension}")
                member.size = len(content)
                writer.addfile(member, io.BytesIO(content))
    cfg = config(batch=4, train=str(path), classes=10)
    found = data.find(cfg, 1)
    assert found.train is not None
    assert found.train.samples == 4
    assert sorted(trained_values(cfg, found, 0, 1)) == [0, 1, 2, 3]


def test_shards_stream_from_a_bucket(object_store: str, shapes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "READ_BYTES", 64 * 1024)  # less than a shard: read in several requests
    for path in Path(shapes).iterdir():
        objects.write(f"gs://trainer-test/streamed/{path.name}", path.read_bytes())
    local, remote = (config(directory=place) for place in (shapes, "gs://trainer-test/streamed"))
    epochs = []
    for cfg in (local, remote):
        count, batches = data.train_epoch(cfg, data.find(cfg, world=2), 1, 2, epoch=3)
        epochs.append([(x.numpy().tobytes(), y.tolist()) for x, y in batches])
        assert count == len(epochs[-1]) == 16
    assert epochs[0] == epochs[1]


def test_brace_and_star_patterns_work_in_a_bucket(object_store: str) -> None:
    for number in range(3):
        objects.write(f"gs://trainer-test/p/t-{number}.tar", b"")
    expected = tuple(f"gs://trainer-test/p/t-{number}.tar" for number in range(3))
    assert data.expand("gs://trainer-test/p/t-{0..2}.tar") == data.expand("gs://trainer-test/p/t-*.tar") == expected
    with pytest.raises(TrainerError, match=r"1 of 4 shards are missing, the first is .*t-3"):
        data.expand("gs://trainer-test/p/t-{0..3}.tar")
    with pytest.raises(TrainerError, match="No shards match"):
        data.expand("gs://trainer-test/q/t-{0..3}.tar")
    with pytest.raises(TrainerError, match="no bucket gs://nowhere"):
        data.expand("gs://nowhere/t-{0..3}.tar")


def test_a_command_can_be_a_shard(numbered: str, tmp_path: Path) -> None:
    first = data.expand(numbered)[0]
    cfg = config(batch=4, train=f"pipe:cat {first}", classes=10)
    found = data.find(cfg, world=1)
    assert found.train is not None
    assert (found.train.urls, found.train.counts) == ((f"pipe:cat {first}",), (10,))
    assert len(trained_values(cfg, Dataset(found.train, None, 10, 32), 0, 1)) == 8


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="pipe:exit 3"):
        data.find(config(train="pipe:exit 3", classes=10), world=1)


class Forbidding(BaseHTTPRequestHandler):
    """Cloud Storage's answer to an account that may not read a bucket."""

    def do_GET(self) -> None:
        content = b'{"error": {"code": 403, "message": "x@y.iam does not have storage.objects.get access"}}'
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def test_a_bucket_that_may_not_be_read_is_told_with_the_role_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forbidding) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        for ask in (
            lambda: objects.matching("gs://theirs/x"),
            lambda: objects.read("gs://theirs/x"),
            lambda: data.expand("gs://theirs/x/{0..3}.tar"),
            lambda: data.find(config(directory="gs://theirs/x"), 1),
        ):
            assert re.match(r"No permission for gs://theirs/x.*objects.get access.*roles/storage", refused(ask))
        server.shutdown()


def test_a_pattern_whose_braces_do_not_match_is_refused() -> None:
    assert "is no pattern of shards" in refused(lambda: data.expand("/x/t-{0..3.tar"))


def test_a_pattern_of_commands_is_one_command_a_shard(numbered: str) -> None:
    cfg = config(batch=4, train=f"pipe:cat {numbered}", classes=10)
    found = data.find(cfg, world=1)
    assert found.train is not None
    assert found.train.counts == (10, 3, 17, 12)
    assert len(set(trained_values(cfg, Dataset(found.train, None, 10, 32), 0, 1))) == 40


def test_classes_that_differ_between_the_patterns_are_named(tmp_path: Path) -> None:
    for name, classes in (("a", ("cat", "dog")), ("b", ("cat", "fox")), ("c", ("dog", "cat"))):
        source = images.Source("pets", classes, 32, {"train": (4, lambda n: images.Sample(ppm(n), "ppm", n % 2))})
        shards.make(source, str(tmp_path / name), samples_per_shard=4, repeat={}, seed=1, tell=lambda _: None)
    train = f"{tmp_path}/a/pets-train-000000.tar"
    for other, says in (("b", "dog, fox"), ("c", "in another order")):
        cfg = config(batch=2, train=train, val=f"{tmp_path}/{other}/pets-train-000000.tar")
        assert says in refused(lambda: data.find(cfg, 1))  # noqa: B023
    assert data.find(config(batch=2, train=train, val=train), 1).classes == 2


def test_fewer_shards_than_loader_processes_work_and_that_is_said(
    shapes: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cfg = config(batch=8, directory=shapes, loader_workers=3)
    found = data.find(cfg, 4)
    said = capfd.readouterr().out
    assert "8 training shards feed 2 loader processes on each of 4 cores, not 3" in said
    assert "--samples-per-shard" in said
    assert len(trained_values(cfg, found, 3, 4)) == 64
    data.find(config(batch=8, directory=shapes, loader_workers=2), 4)
    assert "feed" not in capfd.readouterr().out


def test_shards_that_were_never_finished_are_told_as_that(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).write_text("{}")
    assert "never finished" in refused(lambda: data.find(config(directory=str(tmp_path)), 1))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    urls = tuple(
        shard(tmp_path / f"{number}-{count}-{first}.tar", [(ppm(n), n % 10) for n in range(first, first + count)])
        for number, (first, count) in enumerate(zip(firsts, counts, strict=True))
    )
    found = Dataset(ShardSet(urls, tuple(counts)), ShardSet(urls, tuple(counts)), 10, 32)
    cfg = config(batch=batch, loader_workers=loaders, train="x", val="x", classes=10)
    ranks = [trained_values(cfg, found, rank, world, epoch) for rank in range(world)]
    seen = [value for values in ranks for value in values]
    batches, dropped = split.train_batches(sum(counts), world, batch)
    assert {len(values) for values in ranks} == {batches * batch}
    assert len(seen) == len(set(seen)) == sum(counts) - dropped
    tested = []
    for rank in range(world):
        count, evaluated = data.evaluation(cfg, found, rank, world)
        read = list(evaluated)
        assert len(read) == count
        tested += [int(x[0, 0, 0]) for xs, ys in read for x, y in zip(xs, ys, strict=True) if int(y) != PADDING]
    assert sorted(tested) == list(range(sum(counts)))


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(TrainerError) as caught:
        make()
    return str(caught.value)


def test_fewer_shards_than_cores_are_refused_with_the_way_out(shapes: str) -> None:
    assert "8 training shards are too few for 9 cores" in refused(lambda: data.find(config(directory=shapes), 9))
    assert "--samples-per-shard" in refused(lambda: data.find(config(directory=shapes), 9))


def test_a_batch_larger_than_a_ranks_share_is_refused(shapes: str) -> None:
    assert data.find(config(batch=64, directory=shapes), 4).train is not None
    assert "A batch of 65 is more than each of 4 cores gets" in refused(
        lambda: data.find(config(batch=65, directory=shapes), 4)
    )


def test_places_without_shards_are_named(tmp_path: Path) -> None:
    assert "no directory /nowhere" in refused(lambda: data.find(config(directory="/nowhere"), 1))
    assert "no manifest.json" in refused(lambda: data.find(config(directory=str(tmp_path)), 1))
    assert "No shards match" in refused(lambda: data.find(config(train=f"{tmp_path}/*.tar"), 1))


def test_a_shard_that_the_manifest_lists_but_is_gone_is_named(shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    (tmp_path / "set" / "shapes-train-000003.tar").unlink()
    text = refused(lambda: data.find(config(directory=str(tmp_path / "set")), 1))
    assert "1 of 8 train shards are missing" in text
    assert "shapes-train-000003.tar" in text


@pytest.mark.parametrize("loaders", [0, 2])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda content: content[:2000], "damaged or cut off"),
        (lambda content: content[: len(content) // 2 + 100], "damaged or cut off"),
        (lambda content: content[: 6 * 5120], "holds 6 samples"),
        (lambda content: b"\x00" * 2000 + content[:-2000], "holds 0 samples"),
        (lambda content: content.replace(b"P6\n", b"XX\n"), "cannot be decoded"),
        (lambda content: content.replace(b"P6\n", b"XX\n", 1), "Sample 0000000 of"),
    ],
)
def test_a_bad_shard_is_named_also_from_a_loader_process(
    numbered: str, tmp_path: Path, loaders: int, spoil: Callable[[bytes], bytes], says: str
) -> None:
    content = Path(data.expand(numbered)[0]).read_bytes()
    bad = tmp_path / "bad.tar"
    bad.write_bytes(spoil(content))
    cfg = config(batch=2, loader_workers=loaders, train=str(bad), classes=10)
    found = Dataset(ShardSet((str(bad),) * 2, (10, 10)), None, 10, 32)
    text = refused(lambda: trained_values(cfg, found, 0, 1))
    assert says in text
    assert "bad.tar" in text
    assert "Traceback" not in text


def test_an_image_without_a_class_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path)) as writer:
        writer.write({"__key__": "lonely", "ppm": ppm(1)})
    cfg = config(batch=1, train=str(path), classes=10)
    text = refused(lambda: trained_values(cfg, Dataset(ShardSet((str(path),), (1,)), None, 10, 32), 0, 1))
    assert text == f"Sample lonely of {path} lacks a class or an image: it has ppm."


def test_a_class_beyond_the_last_is_named(tmp_path: Path) -> None:
    url = shard(tmp_path / "x.tar", [(ppm(1), 10)] * 4)
    cfg = config(batch=2, train=url, classes=10)
    assert "has class 10" in refused(lambda: trained_values(cfg, Dataset(ShardSet((url,), (4,)), None, 10, 32), 0, 1))


def test_grey_and_transparent_pictures_are_made_colour(tmp_path: Path) -> None:
    encoded = []
    for mode in ("L", "RGBA", "P"):
        stream = io.BytesIO()
        Image.new(mode, (40, 40), 7).save(stream, "png")
        encoded.append((stream.getvalue(), 1))
    url = shard(tmp_path / "grey.tar", encoded, "png")
    cfg = config(batch=3, train=url, classes=10)
    _, batches = data.train_epoch(cfg, Dataset(ShardSet((url,), (3,)), None, 10, 32), 0, 1, 1)
    assert [tuple(pixels.shape) for pixels, _ in batches] == [(3, 3, 32, 32)]


def test_making_and_splitting_shards_needs_no_torch() -> None:
    modules = "trainer.config, trainer.progress, trainer.split, trainer.manifest, trainer.shards"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
