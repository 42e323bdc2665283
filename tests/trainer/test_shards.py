"""Tests of making shards: the same bytes each time, resumed after an interruption, never half overwritten."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

webdataset = pytest.importorskip("webdataset", reason="the trainer's packages are not installed")

from tests.trainer.shard_sets import make, samples_of
from trainer.errors import REFUSED, TrainerError
from trainer.shards import command, sources
from trainer.shards.manifest import MANIFEST, UNFINISHED, Manifest
from trainer.storage import objects


def test_webdataset_reads_back_every_sample_once(tmp_path: Path) -> None:
    source = sources.shapes(10, 3, 16, seed=1)
    manifest = make(source, tmp_path)
    count, sample_at = source.splits["train"]
    expected = sorted(
        (s.label, np.asarray(Image.open(io.BytesIO(s.content))).tobytes()) for s in map(sample_at, range(count))
    )
    read = samples_of(tmp_path, manifest, "train")
    assert sorted((int(s["cls"]), s["ppm"].tobytes()) for s in read) == expected  # type: ignore[attr-defined]
    assert [s["__key__"] for s in read] == [f"{n:07d}" for n in range(10)]


def test_the_manifest_lists_names_counts_sizes_and_checksums(tmp_path: Path) -> None:
    made = make(sources.shapes(10, 3, 16, seed=1), tmp_path)
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
        make(sources.shapes(12, 2, 16, seed=1), tmp_path / name, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first == again
    assert first.splits["train"] != other.splits["train"]


def test_repeat_takes_each_sample_that_many_times_spread_over_the_shards(tmp_path: Path) -> None:
    manifest = make(sources.shapes(6, 2, 16, seed=1), tmp_path, train=3)
    read = [s["ppm"].tobytes() for s in samples_of(tmp_path, manifest, "train")]  # type: ignore[attr-defined]
    assert len(read) == 18
    assert {read.count(content) for content in read} == {3}
    assert read[:6] != read[6:12]
    assert sum(shard.samples for shard in manifest.splits["val"]) == 2


def test_a_number_of_samples_takes_each_image_equally_often_or_once_more(tmp_path: Path) -> None:
    """As the blog's training set of 1,280,000 CIFAR images in 640 shards, with a ten thousandth of the samples."""
    source = sources.shapes(5, 10, 16, seed=1)
    made = make(source, tmp_path, per_shard=2, repeat={"val": 5}, samples={"train": 128})
    assert [shard.samples for shard in made.splits["train"]] == [2] * 64
    assert made.splits["train"][-1].name == "shapes-train-000063.tar"
    assert sum(shard.samples for shard in made.splits["val"]) == 50
    read = [s["ppm"].tobytes() for s in samples_of(tmp_path, made, "train")]  # type: ignore[attr-defined]
    assert {read.count(content) for content in read} == {25, 26}


def test_the_blogs_set_is_planned_as_640_shards_of_2000_samples() -> None:
    source = replace(sources.shapes(1, 1, 16, seed=1), name="cifar", splits={"train": (50_000, None)})  # type: ignore[dict-item]
    order = command._orders(source, 2000, {}, 42, {"train": 1_280_000})["train"]
    tasks = command._tasks(source, "train", order, 2000)
    assert len(tasks) == 640
    assert {task.stop - task.start for task in tasks} == {2000}
    assert (tasks[0].name, tasks[-1].name) == ("cifar-train-000000.tar", "cifar-train-000639.tar")
    assert set(Counter(order).values()) == {25, 26}


def test_any_number_of_processes_writes_the_same_bytes(tmp_path: Path) -> None:
    source = sources.shapes(30, 7, 16, seed=1)
    made = [make(source, tmp_path / str(workers), train=2, workers=workers) for workers in (1, 3)]
    assert made[0] == made[1]
    for shard in (*made[0].splits["train"], *made[0].splits["val"]):
        assert (tmp_path / "1" / shard.name).read_bytes() == (tmp_path / "3" / shard.name).read_bytes()


def failing_after(source: sources.ImageSource, calls: int) -> sources.ImageSource:
    """Return the same source, which raises an error after `calls` samples."""
    left = [calls]

    def sample(index: int) -> sources.ImageSample:
        left[0] -= 1
        if left[0] < 0:
            raise TrainerError("The disk is on fire")
        return source.splits["train"][1](index)

    splits = {"train": (source.splits["train"][0], sample)}
    return sources.ImageSource(source.name, source.classes, source.image_size, splits, source.identity)


@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_an_interrupted_set_is_resumed_without_writing_whole_shards_again(
    tmp_path: Path, object_store: str, place: str
) -> None:
    out = str(tmp_path / "out") if place == "directory" else "gs://trainer-test/cut-short"
    source = failing_after(sources.shapes(30, 1, 16, seed=1), 10**6)
    expected = make(source, tmp_path / "whole")
    with pytest.raises(TrainerError, match="on fire"):
        make(failing_after(source, 17), out)
    assert sorted(objects.list_names(out)) == [UNFINISHED, *(f"shapes-train-{n:06d}.tar" for n in range(4))]
    objects.write(objects.join(out, "shapes-train-000002.tar"), b"damaged meanwhile")
    reported: list[str] = []
    made = make(failing_after(source, 30 - 3 * 4), out, display=command.LineProgress(reported.append))
    assert reported[0] == "Resuming: 3 of 8 shards are complete"
    assert len(reported) == 1 + 5
    assert made == expected
    assert sorted(objects.list_names(out)) == sorted([MANIFEST, *(s.name for s in expected.splits["train"])])
    for shard in made.splits["train"]:
        assert hashlib.sha256(objects.read(objects.join(out, shard.name))).hexdigest() == shard.sha256


SLOW = """
import sys, time
from trainer.shards import command, sources

made = 0

def slow(index):  # each process does some shards, and then none any more
    global made
    made += 1
    time.sleep(0.05 if made <= 10 else 1000)
    return source.splits["train"][1](index)

source = sources.shapes(40, 1, 16, seed=1)
slowed = sources.ImageSource(source.name, source.classes, 16, {"train": (40, slow)}, source.identity)
command.make(slowed, sys.argv[1], samples_per_shard=4, repeat={}, seed=3, workers=2)
"""


def test_a_killed_run_is_resumed_where_it_was_and_ends_as_if_it_had_never_been_killed(tmp_path: Path) -> None:
    out, unfinished = tmp_path / "out", tmp_path / "out" / UNFINISHED
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(out)], cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 90
    while not unfinished.exists() or len(json.loads(unfinished.read_bytes())["done"]) < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = json.loads(unfinished.read_bytes())["done"]
    before = {each["shard"]["name"]: (out / each["shard"]["name"]).stat().st_mtime_ns for each in done}
    source = failing_after(sources.shapes(40, 1, 16, seed=1), 10**6)
    assert make(source, out) == make(source, tmp_path / "never killed")
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    for path in (tmp_path / "never killed").iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()


def test_a_run_killed_while_it_cleaned_up_is_finished_by_the_same_command(tmp_path: Path) -> None:
    source = failing_after(sources.shapes(30, 1, 16, seed=1), 18)
    with pytest.raises(TrainerError, match="on fire"):
        make(source, tmp_path)
    unfinished = (tmp_path / UNFINISHED).read_bytes()
    source = failing_after(sources.shapes(30, 1, 16, seed=1), 10**6)
    manifest = make(source, tmp_path)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / UNFINISHED).write_bytes(unfinished)
    assert make(source, tmp_path) == manifest
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole


def test_the_error_that_ends_the_writing_is_reported_and_not_that_of_saving_the_list(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def sample(index: int) -> sources.ImageSample:
        shutil.rmtree(out, ignore_errors=True)
        out.touch()
        raise TrainerError("The disk is on fire")

    with pytest.raises(TrainerError, match="on fire"):
        make(sources.ImageSource("x", ("a", "b"), 16, {"train": (8, sample)}), out)


def test_half_shard_sets_are_not_completed_with_other_arguments(tmp_path: Path) -> None:
    source = failing_after(sources.shapes(30, 1, 16, seed=1), 10**6)
    with pytest.raises(TrainerError, match="on fire"):
        make(failing_after(source, 17), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        TrainerError,
        match=r"unfinished shards of other arguments: --samples-per-shard, --seed differ\. .*--overwrite",
    ):
        make(source, tmp_path, per_shard=5, seed=4)
    with pytest.raises(TrainerError, match="images differ"):
        make(failing_after(sources.shapes(30, 1, 16, seed=2), 99), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_overwritten_set_leaves_nothing_of_a_larger_one_behind(tmp_path: Path) -> None:
    make(sources.shapes(30, 9, 16, seed=1), tmp_path)
    (tmp_path / "mine.tar").write_bytes(b"something else")
    made = make(sources.shapes(8, 4, 16, seed=1), tmp_path, overwrite=True)
    names = [shard.name for shard in (*made.splits["train"], *made.splits["val"])]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, MANIFEST, "mine.tar"])


def test_a_half_overwritten_set_counts_as_unfinished(tmp_path: Path) -> None:
    source = failing_after(sources.shapes(30, 1, 16, seed=1), 10**6)
    make(source, tmp_path)
    with pytest.raises(TrainerError, match="on fire"):
        make(failing_after(source, 9), tmp_path, overwrite=True)
    assert not (tmp_path / MANIFEST).exists()
    assert (tmp_path / UNFINISHED).exists()


def test_progress_is_a_bar_on_a_terminal_and_plain_lines_in_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["shapes", "--train", "8", "--val", "2", "--size", "16", "--samples-per-shard", "4", "--out"]
    assert command.main([*arguments, str(tmp_path / "a")]) == 0
    assert sorted(line.split(":")[0] for line in capfd.readouterr().err.splitlines()) == [
        "shapes-train-000000.tar",
        "shapes-train-000001.tar",
        "shapes-val-000000.tar",
    ]
    script = shutil.which("script")
    if script is None:
        pytest.skip("no script(1) to get a terminal from")
    shell = ["stty rows 30 cols 100;", sys.executable, "-m", "trainer.shards", *arguments, str(tmp_path / "b")]
    seen = subprocess.run(
        [script, "-qec", " ".join(shell), "/dev/null"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "100%" in seen.stdout
    assert "3 shards" in seen.stdout


def test_existing_shards_are_not_overwritten_without_the_option(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["shapes", "--out", str(tmp_path), "--train", "4", "--val", "2", "--size", "16"]
    assert command.main(arguments) == 0
    assert "python -m trainer.train --data" in capfd.readouterr().out
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert command.main(arguments) == 2
    assert "--overwrite" in capfd.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert command.main([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["folder", "/nowhere/at/all"],
        ["cifar10", "/nowhere.tar.gz"],
        ["folder", "/" + 300 * "x"],
        ["cifar10", "/" + 300 * "x"],
        ["shapes", "--train", "0"],
        ["shapes", "--samples-per-shard", "0"],
        ["shapes", "--repeat", "0"],
        ["folder", "gs://bucket/images"],
        ["shapes", "--out", "s3://bucket/set"],
    ],
)
def test_a_set_that_cannot_be_made_is_reported_in_one_line(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, *others = arguments
    assert command.main([first, "--out", str(tmp_path / "out"), *others]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_options_cannot_be_abbreviated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["shapes", "--out", str(tmp_path / "out"), "--over"])
    assert "unrecognized arguments: --over" in capsys.readouterr().err


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainerError, match="file"):
        make(sources.shapes(4, 2, 16, seed=1), tmp_path / "file")


def test_shards_go_straight_into_a_bucket(object_store: str, tmp_path: Path) -> None:
    out = "gs://trainer-test/sets/shapes"
    local = make(sources.shapes(10, 3, 16, seed=1), tmp_path)
    remote = make(sources.shapes(10, 3, 16, seed=1), out)
    assert remote == local
    names = [s.name for s in (*local.splits["train"], *local.splits["val"])]
    assert objects.list_names(out) == [MANIFEST, *names]
    for shard in local.splits["train"]:
        assert objects.read(objects.join(out, shard.name)) == (tmp_path / shard.name).read_bytes()
    with pytest.raises(TrainerError, match="already holds"):
        make(sources.shapes(4, 2, 16, seed=1), out)


def test_a_missing_bucket_is_named(object_store: str) -> None:
    with pytest.raises(TrainerError, match="There is no bucket gs://no-such-bucket"):
        make(sources.shapes(4, 2, 16, seed=1), "gs://no-such-bucket/x")


def test_a_newer_trainers_manifest_is_refused_with_what_to_do() -> None:
    says = "there was written by a newer trainer: it has schema 9, this trainer reads 1. Update the trainer here, or"
    with pytest.raises(TrainerError, match=says):
        Manifest.from_json('{"schema": 9}', "there")


def test_a_manifest_with_impossible_numbers_is_refused(shapes: str) -> None:
    reported = (Path(shapes) / "manifest.json").read_text()
    for samples in ("-32", "1000000000"):
        with pytest.raises(TrainerError, match=f"shapes-train-000000.tar cannot hold {samples} samples in"):
            Manifest.from_json(reported.replace('"samples": 32', f'"samples": {samples}', 1), "there")
    for size in ("0", "-1", "1000000", "Infinity"):
        with pytest.raises(TrainerError, match="there is not a manifest of shards: "):
            Manifest.from_json(reported.replace('"image_size": 32', f'"image_size": {size}'), "there")
    with pytest.raises(TrainerError, match="there is not a manifest"):
        Manifest.from_json("[" * 100_000, "there")


def test_shards_are_written_to_directories_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    for out, says in ((str(file), f"{file} is a file"), ("", "--out is empty")):
        assert command.main(["shapes", "--train", "4", "--val", "2", "--out", out]) == REFUSED
        assert says in capfd.readouterr().err


def test_a_document_that_is_not_a_manifest_is_refused() -> None:
    with pytest.raises(TrainerError, match="there is not a manifest of shards: it has schema 0, this trainer reads"):
        Manifest.from_json('{"schema": 0}', "there")
    with pytest.raises(TrainerError, match="there is not a manifest"):
        Manifest.from_json("[]", "there")


@pytest.mark.parametrize(
    ("newer", "says"),
    [({"schema": 9}, "it has schema 9"), ({"done": [{"shard": {"codec": "zstd"}}]}, "does not know its codec")],
    ids=["schema", "field"],
)
def test_a_newer_trainers_list_of_finished_shards_is_refused_with_a_remedy(
    tmp_path: Path, newer: dict[str, object], says: str
) -> None:
    reported = {"schema": 1, "made_from": {}, "done": [], **newer}
    (tmp_path / "manifest.unfinished.json").write_text(json.dumps(reported))
    with pytest.raises(TrainerError, match=rf"was written by a newer trainer: .*{says}.*, or start over with --over"):
        make(sources.shapes(4, 4, 32, seed=1), tmp_path, seed=1)


@pytest.mark.parametrize(
    "content",
    [
        '{"schema": 1, "made_from": 7, "done": []}',
        '{"schema": 1, "made_from": {}, "done": [{"shard": {"name": 5, "samples": 0, "size": 0, "sha256": ""}}]}',
        "[" * 100_000,
    ],
    ids=["arguments", "a shard's name", "deep"],
)
def test_an_invalid_list_of_finished_shards_is_refused_with_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / UNFINISHED).write_text(content)
    with pytest.raises(TrainerError, match=rf"{UNFINISHED} cannot be read: .*\. Start over with --overwrite"):
        make(sources.shapes(4, 4, 32, seed=1), tmp_path)


def test_a_note_above_the_bar_holds_no_escape_sequence(capfd: pytest.CaptureFixture[str]) -> None:
    bar = command.BarProgress()
    bar.begin([], [])
    bar.note("Left out. a\x1b[31m.jpg")
    bar.end()
    assert "Left out. a\ufffd[31m.jpg\n" in capfd.readouterr().err
