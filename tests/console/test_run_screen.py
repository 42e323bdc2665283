from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from tests.console.driving import (
    FULL,
    SMALL,
    headline,
    opened_run,
    running,
    shown,
    table,
    trouble,
    until,
)
from tests.console.stage import StageOperator, a_slice, begin, make_run, train, training_line, write
from tui.console.app import ConsoleApp
from tui.console.data.run_feed import RunFeed
from tui.console.screens.pod import PodScreen
from tui.console.screens.run import RunScreen
from tui.console.widgets.log.log_pane import LogPane
from tui.console.widgets.tab_bar import TabBar
from tui.console.widgets.tables.core_table_widget import CoreTableWidget
from tui.logs.saved_log import open_log
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.timing


async def test_a_run_that_grows_fills_the_open_run_screen(operator: StageOperator) -> None:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    directory.append_event("state", state="preparing")
    directory.append_event("phase", worker=2, phase="connect", status="failed", detail="connection refused")
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: "connection refused" in shown(table(app, "phases")))
        begin(directory)
        write(directory, 1, b"compiling the first step\n")
        await until(pilot, lambda: "compiling the first step" in shown(table(app, "phases")))
        assert "running" in headline(app)
        train(directory, range(0, 100, 5))
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.row_count() == 32)
        await until(pilot, lambda: "32 of 32 cores" in headline(app))
        await until(pilot, lambda: "straggler: core 13" in trouble(app))
        assert "nan: core 22, since epoch 1, step 65" in trouble(app)
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "Device=xla:1/31" in shown(log))
        write(directory, 3, training_line(31, 1, 4000, 0.5, 1.0))
        await until(pilot, lambda: "Step=4000" in shown(log))
        directory.append_event("exit", worker=2, exit_code=1, signal=None, size=1, cause="exit code 1")
        directory.append_event("failure", worker=2, exit_code=1, cause="exit code 1")
        directory.append_event("state", state="failed")
        await until(pilot, lambda: "worker 2: exit code 1" in trouble(app))
        assert "failed" in headline(app)


async def test_enter_on_a_core_opens_its_workers_log(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        await until(pilot, lambda: app.screen.query_one(CoreTableWidget).row_count())
        await pilot.press("end", "enter")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "/31 " in shown(log) and "/0 " not in shown(log))
        await until(pilot, lambda: app.screen.chosen_worker() == 3)  # type: ignore[attr-defined]
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "/23 " in shown(log))


async def test_escape_leads_from_a_run_back_to_the_pod_from_any_start(operator: StageOperator) -> None:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice()))
    app = ConsoleApp(operator, open_run=directory)
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        await until(pilot, lambda: directory.id in shown(table(app, "runs")))
        table(app, "runs").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))


async def test_a_small_terminal_has_tabs_in_place_of_panes(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        visible = lambda: [  # noqa: E731
            name for name in ("cores", "charts", "logs") if app.screen.query_one(f"#pane-{name}").region.area
        ]
        await until(pilot, lambda: visible() == ["cores"])
        await pilot.press("2")
        await until(pilot, lambda: visible() == ["charts"])
        await pilot.press("l")
        await until(pilot, lambda: visible() == ["logs"])
        await pilot.resize_terminal(*FULL)
        await until(pilot, lambda: visible() == ["cores", "charts", "logs"])


async def test_z_makes_one_pane_fill_the_screen_and_escape_restores_the_others(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: app.screen.query("#pane-loss") and app.screen.query_one("#pane-loss").size.height)
        panes = {name: app.screen.query_one(f"#pane-{name}") for name in ("cores", "charts", "logs")}
        seen = lambda: [name for name, pane in panes.items() if pane in app.screen._compositor.visible_widgets]  # noqa: E731
        await pilot.click("#log-tabs", offset=(14, 0))
        await pilot.press("z")
        await until(pilot, lambda: seen() == ["logs"])
        assert panes["logs"].outer_size.width == FULL[0]
        assert panes["logs"].outer_size.height >= FULL[1] - 5
        await pilot.press("2")
        await until(pilot, lambda: seen() == ["charts"])
        assert panes["charts"].has_focus
        await pilot.press("escape")
        await until(pilot, lambda: seen() == ["cores", "charts", "logs"])
        assert isinstance(app.screen, RunScreen)


async def test_charts_are_drawn_without_colour_too(operator: StageOperator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        await pilot.resize_terminal(*FULL)
        await until(pilot, lambda: app.screen.query("#loss") and app.screen.query_one("#loss").draws)  # type: ignore[attr-defined]
        loss = app.screen.query_one("#loss #plot")
        assert all(segment.style for y in range(99) for segment in loss.render_line(y))


async def test_curves_are_dark_on_a_light_screen_and_bright_on_a_dark_one(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        await until(pilot, lambda: app.screen.query("#loss #plot"))

        def colours() -> set[str]:
            strips = [app.screen.query_one("#loss #plot").render_line(y) for y in range(20)]
            return {part.style.color.name for strip in strips for part in strip if part.style and part.style.color}

        await until(pilot, lambda: "bright_cyan" in colours())
        app.theme = "textual-light"
        await until(pilot, lambda: "cyan" in colours() and "bright_cyan" not in colours())


async def test_a_saved_log_without_training_lines_is_shown_with_a_remedy(
    operator: StageOperator, tmp_path: Path
) -> None:
    path = tmp_path / "plain.log"
    path.write_bytes(b"hello\n" * 50)
    app = ConsoleApp(operator, replay=open_log(path))
    async with app.run_test(size=FULL) as pilot:
        pane = app.screen.query_one("#pane-cores")
        await until(pilot, lambda: "No training lines found" in str(pane.border_title))
        assert "tpu-tui dialect test" in shown(table(app, "phases"))


async def test_a_saved_log_is_shown_and_marked_as_a_replay(operator: StageOperator, tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    lines = []
    for step in (0, 20):
        for core in range(4):
            prefix = f"2020-08-06 02:38:{step:02d} 10.164.0.{40 + core // 2} [{core // 2}] ".encode()
            lines.append(prefix + training_line(core, 1, step, 6.5, 100.0))
    path.write_bytes(b"".join(lines))
    app = ConsoleApp(operator, replay=open_log(path))
    async with app.run_test(size=FULL) as pilot:
        await until(
            pilot,
            lambda: isinstance(app.screen, RunScreen) and app.screen.query_one(CoreTableWidget).row_count() == 4,
        )
        await until(pilot, lambda: "replay of a saved log" in headline(app))
        assert "out.log" in headline(app)
        await until(pilot, lambda: "worker 1" in app.screen.query_one("#log-tabs", TabBar).render_line(0).text)
        await pilot.press("right_square_bracket", "right_square_bracket")
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: "[1]" in shown(log) and "[0]" not in shown(log))
        assert "4 lines" in log.summary


@pytest.mark.parametrize("size", [(100, 40), SMALL, (160, 24)], ids=["100x40", "80x24", "160x24"])
async def test_logs_are_shown_below_the_tabs_when_the_table_leaves_room(
    operator: StageOperator, size: tuple[int, int]
) -> None:
    directory = running(operator, cores_per_worker=1)
    train(directory, range(0, 20, 5), cores=1)
    async with opened_run(operator, directory, size) as (app, pilot):
        region = lambda name: app.screen.query_one(f"#pane-{name}").region  # noqa: E731
        visible = lambda: [name for name in ("cores", "charts", "logs") if region(name).area]  # noqa: E731
        await until(pilot, lambda: visible() == ["cores", "logs"])
        await until(pilot, lambda: region("logs").y == region("cores").bottom)
        await pilot.press("2")
        await until(pilot, lambda: visible() == ["charts", "logs"])
        await pilot.press("l")
        await until(pilot, lambda: app.screen.query_one(LogPane).has_focus)
        assert visible() == ["charts", "logs"]
        await pilot.press("1")
        await until(pilot, lambda: visible() == ["cores", "logs"])
        await pilot.click("#pane-tabs", offset=(13, 0))
        await until(pilot, lambda: visible() == ["charts", "logs"] and app.screen.query_one("#pane-charts").has_focus)


async def test_few_cores_leave_the_room_to_the_logs(operator: StageOperator) -> None:
    few, many = running(operator, cores_per_worker=1), running(operator, id="many-20261121-090001-a1b2")
    train(few, range(0, 20, 5), cores=1)
    train(many, range(0, 20, 5))
    heights = []
    for directory in (few, many):
        async with opened_run(StageOperator(operator.settings.home), directory, (120, 40)) as (app, pilot):
            cores = lambda: app.screen.query_one(CoreTableWidget)  # noqa: E731
            await until(pilot, lambda: cores().row_count())  # noqa: B023
            await until(pilot, lambda: app.screen.query_one("#pane-rate").region.height >= 10)
            heights.append(app.screen.query_one("#lower").size.height)
            if directory is few:
                assert cores().size.height == 5
    assert heights[0] > heights[1]


def _long_run(operator: StageOperator) -> RunDirectory:
    """Make a run whose logs take many steps to read: the first half of each holds no training lines."""
    directory = running(operator, trained=range(0, 20, 5))
    for worker in range(4):
        write(directory, worker, b"chatter about nothing in particular\n" * 60_000)
    train(directory, range(500, 520, 5))
    return directory


def test_figures_are_current_once_the_logs_are_read_to_their_ends(operator: StageOperator) -> None:
    feed = RunFeed(_long_run(operator), dialects=(), thresholds={})
    feed.poll()
    while feed.is_behind:
        feed.read()
    assert not feed.has_caught_up
    feed.poll()
    assert feed.has_caught_up
    assert feed.snapshot is not None
    assert feed.snapshot.median_step == 515
    feed.close()


async def test_while_logs_are_read_the_headline_shows_the_progress_and_no_old_figures(
    operator: StageOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, may_go_on = RunReader.poll, asyncio.Event()

    def read_half(reader: RunReader, budget_bytes: int) -> bool:
        """Read as usual, but wait in the middle of the logs."""
        return read(reader, budget_bytes) if may_go_on.is_set() or reader.tail.progress() < 0.5 else True

    monkeypatch.setattr(RunReader, "poll", read_half)
    directory = _long_run(operator)
    directory.append_event("stop_requested", by="user")
    directory.append_event("state", state="stopped")
    seen = []
    async with opened_run(operator, directory) as (app, pilot):
        assert isinstance(app.screen, RunScreen)
        await until(pilot, lambda: re.search(r"reading [5-9]\d %", headline(app)))
        await until(pilot, lambda: "· reading " in str(app.screen.query_one("#pane-loss").border_title))
        while not app.screen.feed.has_caught_up:
            seen.append((headline(app), trouble(app), str(app.screen.query_one("#pane-loss").border_title)))
            if len(seen) > 1:
                may_go_on.set()
            await pilot.pause(0.01)
        await until(pilot, lambda: "step 515" in headline(app).splitlines()[1])
        await until(pilot, lambda: "reading" not in headline(app))
        await until(pilot, lambda: "reading" not in str(app.screen.query_one("#pane-loss").border_title))
        assert "behind c13" in headline(app)
    half_read = [(head, problem, note) for head, problem, note in seen[:-1] if "reading" in head]
    assert half_read
    for head, problem, _ in half_read:
        figures = head.splitlines()[1]
        assert re.match(r"reading \d+ %  newest: loss \S+ step 515 epoch 1$", figures), figures
        assert problem == ""
    assert any("· reading " in note for _, _, note in half_read)


async def test_a_saved_log_shows_how_much_of_it_is_read(operator: StageOperator, tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    chatter = b"chatter about nothing in particular\n" * 400_000
    path.write_bytes(training_line(0, 1, 5, 6.5, 100.0) + chatter + training_line(0, 1, 900, 0.5, 100.0))
    app = ConsoleApp(operator, replay=open_log(path))
    seen = []
    async with app.run_test(size=FULL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.ready)
        assert isinstance(app.screen, RunScreen)
        while not app.screen.feed.has_caught_up:
            seen.append(headline(app))
            await pilot.pause(0.01)
        await until(pilot, lambda: "step 900" in headline(app))
        await until(pilot, lambda: "reading" not in headline(app))
    assert any(re.search(r"reading \d+ %", head) for head in seen)
    assert not any("step 5" in head for head in seen if "reading" in head)


async def test_the_last_line_of_a_crash_is_in_the_merged_log_without_a_newline(operator: StageOperator) -> None:
    directory = running(operator)
    write(directory, 2, b"step 1 loss 2\nfatal: disk full")
    async with opened_run(operator, directory) as (app, pilot):
        log = app.screen.query_one(LogPane)
        await pilot.press("l")
        await until(pilot, lambda: "step 1 loss 2" in shown(log))
        directory.append_event("exit", worker=2, exit_code=4, signal=None, size=1, cause="exit code 4")
        await until(pilot, lambda: "fatal: disk full" in shown(log))
        await pilot.press("slash", *"disk", "enter")
        await until(pilot, lambda: "1 line with" in log.summary)


@pytest.mark.parametrize("banner", [30, 100, 200])
async def test_the_layout_depends_on_size_and_content_and_not_on_the_sizes_before(
    operator: StageOperator, banner: int
) -> None:
    directory = RunDirectory.create(operator.settings.runs_home, make_run(a_slice(count=1)))
    begin(directory)
    train(directory, range(0, 20, 5))
    directory.append_event("note", text="word " * (banner // 5))
    async with opened_run(operator, directory, SMALL) as (app, pilot):

        def regions() -> list[object]:
            names = ("#trouble", "#pane-cores", "#pane-logs")
            return [app.screen.query_one(name).region for name in names]

        await until(pilot, lambda: app.screen.query_one(CoreTableWidget).row_count() == 8)
        await pilot.pause(0.3)
        before = regions()
        for size in ((79, 24), (40, 12)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.3)
            await pilot.resize_terminal(*SMALL)
            await pilot.pause(0.3)
            assert regions() == before
        directory.append_event("note", text="word " * 60)
        await until(pilot, lambda: len(trouble(app)) > 290)
        directory.append_event("note", text="word " * (banner // 5))
        await until(pilot, lambda: len(trouble(app)) < 290)
        await pilot.pause(0.3)
        assert regions() == before


async def test_the_headline_shows_how_far_the_run_has_come_and_the_time_left(operator: StageOperator) -> None:
    directory = running(operator)
    began = time.time() - 100
    write(directory, 0, b"64 training samples in 8 shards: 10 steps an epoch, 0 samples dropped\n", began)
    write(directory, 0, b"resnet50, 25.6 M parameters, 10 classes, batch 8 on each of 32 cores, 5 epochs\n", began)
    for step in range(20):
        write(directory, 0, training_line(0, 1 + step // 10, step % 10, 0.5, 1.0), began + 4 * step)
    async with opened_run(operator, directory, FULL) as (app, pilot):
        await until(pilot, lambda: "epoch 2/5  (38 %, 2m04s left)  step 9/10" in headline(app))
        directory.append_event("state", state="stopped")
        await until(pilot, lambda: "epoch 2/5  step 9/10" in headline(app))


async def test_escape_clears_the_filter_of_a_pane_that_has_no_focus(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory) as (app, pilot):
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.row_count() == 32)
        cores.set_filter("31")
        assert cores.row_count() == 1
        app.screen.query_one(LogPane).focus()
        await pilot.pause()
        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)
        assert cores.row_count() == 32
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))


async def test_escape_leaves_a_run_whose_filtered_pane_is_behind_a_tab(operator: StageOperator) -> None:
    directory = running(operator, trained=range(0, 20, 5))
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        cores = app.screen.query_one(CoreTableWidget)
        await until(pilot, lambda: cores.row_count() == 32)
        cores.set_filter("31")
        await pilot.press("3")
        await until(pilot, lambda: app.screen.query_one(LogPane).has_focus and not cores.is_on_screen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
