"""Tests of the input benchmark: every row sees every image, and a row that cannot be measured says why."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from trainer.bench_input import benchmark as bench
from trainer.bench_input import fixtures, peers, photo_like, rows
from trainer.bench_input.cpu_affinity import Cores, available, run_on, split_cores
from trainer.bench_input.latency_proxy import slowed
from trainer.bench_input.table import DELAY_MS, LABEL, Case, as_json, sweep_table, table
from trainer.errors import REFUSED, TrainerError
from trainer.storage import objects

SMALL = ["--images", "24", "--shards", "3", "--batch", "4", "--size", "32", "--buffer", "8", "--few", "6"]


def test_every_row_of_the_trainer_sees_every_image_and_the_table_shows_the_ratios() -> None:
    with fixtures.lay_out(bench.parser().parse_args(SMALL)) as (material, addresses, store_files):
        assert set(addresses) == {0.0, DELAY_MS}
        assert {row(material)() for row in OWN_ROWS} == {24}
        assert {row(material)() for row in (rows.from_single_objects, rows.from_many_single_objects)} == {6}
        chosen = [
            *(case for case in bench.cases(cold=True, with_peers=False, store=True) if case.row in OWN_ROWS),
            Case("no such peer", failing, missing="it is not installed"),
            Case("a peer that fails", failing),
            Case("on all cores", only_on(available())),
            Case("beside the store", only_on(split_cores()[0]), apart=True),
        ]
        results = bench.experiment(material, addresses, store_files, chosen, rounds=1)
    lines = table(material, chosen, results)
    assert max(map(len, lines)) <= 80
    reported = as_json(material, chosen, results)
    assert [len(case["samples_per_second"]) for case in reported["cases"]] == [1] * (len(chosen) - 4) + [0, 0, 1, 1]
    assert json.loads(json.dumps(reported))["cases"][0]["ratio_to_a"] == 1.0
    assert [case["ratio_to_a"] for case in reported["cases"] if not case["beside_store"]] == [None] * 3
    assert any("no such peer" in line and "not installed" in line for line in lines)
    assert any("not measured: ValueError: broken" in line for line in lines)
    assert [line.split(":")[0] for line in lines[-3:]] == [
        "B / A",
        "B / A, page cache cold",
        f"C / B at {DELAY_MS:g} ms",
    ]


OWN_ROWS = (rows.from_files, rows.from_shards, rows.from_bucket)


def only_on(cores: Cores) -> rows.Row:
    """Return a row that raises an error unless the process runs on these cores."""

    def epoch() -> int:
        if available() != cores:
            raise ValueError(f"it runs on {available()}, not {cores}")
        return 1

    return lambda material: epoch


def test_the_object_store_has_a_core_of_its_own_where_there_are_two() -> None:
    every = available()
    own, stores = split_cores()
    assert own | stores == every
    assert (own == stores) == (len(every) == 1)
    code = "import os; print(*os.sched_getaffinity(0))"
    with run_on(stores):
        reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert frozenset(map(int, reported.split())) == stores
    assert available() == every


def failing(material: rows.Material) -> rows.Epoch:
    raise ValueError("broken")


def test_the_latency_proxy_delays_each_request_and_changes_no_content(object_store: str) -> None:
    content = os.urandom(3_000_000)
    objects.write("gs://trainer-test/slow", content)
    with slowed(object_store, 150) as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", address)
        began = time.monotonic()
        for _ in range(3):
            assert objects.read("gs://trainer-test/slow") == content
        assert time.monotonic() - began >= 3 * 0.15  # a lower bound: a busy machine only takes longer


def test_without_an_object_store_the_local_rows_are_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.bench_input.object_store.binary", lambda: None)
    with fixtures.lay_out(bench.parser().parse_args(SMALL)) as (material, addresses, store_files):
        assert (addresses, store_files, material.bucket) == ({}, None, "")
        assert rows.from_shards(material)() == 24
    missing = {case.missing for case in bench.cases(cold=False, with_peers=False, store=False) if case.delay}
    assert missing == {"fake-gcs-server is not installed"}


def test_a_sweep_leaves_out_what_cannot_be_measured_and_names_the_best_of_the_rest(
    object_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "SWEPT", {"number of shards": (1, 3), "batch": (64,)})
    # 16 images are more than one of three shards has.
    found = bench.sweep(bench.parser().parse_args([*SMALL, "--batch", "16"]), 1)
    lines = sweep_table(found)
    assert any("not measured: TrainerError: A batch of 16 is more than" in line for line in lines)
    assert lines[-1] == "Best: number of shards 3"
    assert max(map(len, lines)) <= 80
    assert sweep_table({})[-1] == "Best: nothing could be measured"


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """Restore the handlers of signals after the test."""
    before = {number: signal.getsignal(number) for number in fixtures.STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (["--shards", "0"], "0 is not a whole number of at least 1"),
        (["--rounds", "x"], "x is not a whole number of at least 1"),
        (["--size", "8"], "8 is not a whole number between 32 and 4096"),
        (["--loaders", "-1"], "-1 is not a whole number between 0 and 512"),
        (["--rows", "nothing", "--work", "/nowhere"], "There is no row nothing"),
        (["--images", "20"], "Not even one batch of 64 can be made: there are 20 images"),
        (["--work", "/nowhere"], "Cannot make a directory in /nowhere: No such file"),
    ],
)
def test_a_benchmark_that_cannot_be_set_up_is_reported_in_a_sentence(
    given: list[str], printed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        assert bench.main(given) == REFUSED
    assert printed in capfd.readouterr().err


@pytest.mark.usefixtures("own_handlers")
def test_a_disk_that_takes_no_pictures_is_reported_with_a_remedy(capfd: pytest.CaptureFixture[str]) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert bench.main(SMALL) == REFUSED
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "Cannot lay out the images: File too large. Make room there" in capfd.readouterr().err


def test_a_folder_with_folders_in_its_class_folders_is_refused(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/deeper/2.jpg", "b/3.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(photo_like.picture(name))
    options = bench.parser().parse_args(["--batch", "1", "--folder", str(tmp_path)])
    with pytest.raises(TrainerError, match=r"Rows cannot be compared over .*: not every"), fixtures.lay_out(options):
        pass


@pytest.mark.usefixtures("own_handlers")
def test_a_signal_works_while_a_row_is_being_forked() -> None:
    material = rows.Material(Path(), "", "", images=1, classes=1, batch=1, size=32, buffer=1, loaders=0, few=1)
    for number in fixtures.STOPS:
        signal.signal(number, bench._interrupt)
    due = [signal.SIGTERM]
    os.register_at_fork(before=lambda: due and signal.raise_signal(due.pop()))
    try:
        with pytest.raises(KeyboardInterrupt):
            bench.measure(only_on(available()), material, None, available())
    finally:
        due.clear()


def test_rows_can_be_selected_by_name() -> None:
    chosen = bench.cases(cold=True, with_peers=True, store=True)
    assert max(len(case.label) for case in chosen) <= LABEL
    assert [case.label for case in bench.select_cases(chosen, "b, C")] == [
        "B  local shards",
        "C  shards from the bucket, 0 ms",
        "C  shards from the bucket, 20 ms",
        "B  local shards, cold",
        "C  shards from the bucket, 20 ms, cold",
        "B  local shards, all cores",
        "C  shards from the bucket, all cores, 20 ms",
    ]
    assert {case.row for case in bench.select_cases(chosen, "a'")} == {
        rows.from_single_objects,
        rows.from_many_single_objects,
    }
    assert {case.row for case in bench.select_cases(chosen, "torchvision")} == {peers.image_folder}
    with pytest.raises(TrainerError, match=r"There is no row d.* Name a word of a row: A  files"):
        bench.select_cases(chosen, "A,D")
