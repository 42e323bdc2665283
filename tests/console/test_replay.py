"""Tests of the feed of a saved log, and of its run screen."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.console.driving import shown, trouble, until
from tests.console.stage import StageOperator
from tests.logs.shapes import training
from tui.console.app import ConsoleApp
from tui.console.data.saved_log_feed import SavedLogFeed
from tui.console.render.run_summary import format_headline
from tui.console.screens.run import RunScreen
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.logs.saved_log import open_log

pytestmark = pytest.mark.timing

LOGS = {
    "xla_dist": (
        "2020-08-06 02:38:57 10.164.0.43 [0] " + training(core=0),
        "2020-08-06 02:38:57 10.164.0.109 [1] " + training(core=8),
        "2020-08-06 02:38:58 10.164.0.109 [1] saving",
    ),
    "SkyPilot": (
        "(head, rank=0, pid=17) " + training(core=0),
        "\x1b[36m(worker1, rank=1, pid=15, ip=10.0.0.7)\x1b[0m " + training(core=8),
        "(worker1, rank=1, pid=15, ip=10.0.0.7) saving",
    ),
    "pdsh": ("node-a: " + training(core=0), "node-b: " + training(core=8), "node-b: saving"),
    "srun": ("0: " + training(core=0), " 1: " + training(core=8), " 1: saving"),
}


@pytest.mark.parametrize("tool", sorted(LOGS))
def test_each_workers_lines_are_found_by_the_prefix_that_a_launcher_added(tool: str, tmp_path: Path) -> None:
    lines = [line.encode() for line in LOGS[tool]]
    path = tmp_path / "out.log"
    path.write_bytes(b"\n".join(lines) + b"\n")
    feed = SavedLogFeed(open_log(path))
    while feed.poll():
        pass
    assert list(feed.workers) == [0, 1]
    for worker, expected in ((0, lines[:1]), (1, lines[1:])):
        assert [feed._owners.read(line)[0] == worker for line in lines] == [line in expected for line in lines]
    feed.close()


def test_figures_are_current_once_the_whole_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_text("".join(training(step=step) + "\n" for step in range(20_000)))
    feed = SavedLogFeed(open_log(path))
    while feed.is_behind:
        feed.read()
    assert not feed.has_caught_up
    feed.poll()
    assert feed.has_caught_up
    assert feed.snapshot is not None
    assert feed.snapshot.median_step == 19_999
    feed.close()


@pytest.mark.parametrize(
    ("losses", "figures"),
    [
        (["1.32500"], ["loss 1.32500"]),
        (["nan", "nan"], ["loss nan"]),
        (["1.00000", "2.00000"], ["loss 1.50000", "(1.0000–2.0000)"]),
    ],
)
def test_the_headline_shows_the_spread_of_losses_only_if_they_differ(
    losses: list[str], figures: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "out.log"
    path.write_text("".join(f"{training(core=core, loss=loss)}\n" for core, loss in enumerate(losses)))
    feed = SavedLogFeed(open_log(path))
    while feed.is_behind or not feed.has_caught_up:
        feed.poll()
    shown_figures = [cell.text for cell in format_headline(feed, 0.0)[1]]
    assert shown_figures[2:-2] == figures
    feed.close()


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Make every write beyond `size` bytes of a file fail in this process."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_compressed_log_that_does_not_fit_on_the_disk_is_shown_as_far_as_it_does(tmp_path: Path) -> None:
    path = tmp_path / "out.log.gz"
    path.write_bytes(gzip.compress("".join(training(step=step) + "\n" for step in range(20_000)).encode()))
    feed = SavedLogFeed(open_log(path))
    with limited_files(100_000):
        while feed.poll():
            pass
        assert "out.log.gz cannot be unpacked: File too large" in str(feed.problem)
        assert "TMPDIR" in str(feed.problem)
        assert feed.has_caught_up
        feed.close()


async def test_a_compressed_log_that_is_cut_off_is_marked_above_its_cores(
    operator: StageOperator, tmp_path: Path
) -> None:
    path = tmp_path / "out.log.gz"
    whole = gzip.compress("".join(training(step=step) + "\n" for step in range(2000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    app = ConsoleApp(operator, replay=open_log(path))
    async with app.run_test(size=(100, 26)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        await until(pilot, lambda: "it is cut off" in trouble(app))
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.row_count() == 1 and "training" in shown(cores))
