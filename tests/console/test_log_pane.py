from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from tests.console.driving import until
from tui.console.data.line_index import MAX_SHOWN_BYTES, FileLines
from tui.console.widgets.log.log_pane import LogPane

pytestmark = pytest.mark.timing


class WidgetApp(App[None]):
    def __init__(self, pane: LogPane) -> None:
        super().__init__()
        self.pane = pane

    def compose(self) -> ComposeResult:
        yield self.pane


def shown(pane: LogPane) -> list[str]:
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


async def open_pane(pilot: Pilot[None], pane: LogPane, path: Path) -> None:
    pane.open(FileLines(path))
    await settle(pilot, pane)


async def settle(pilot: Pilot[None], pane: LogPane) -> None:
    for _ in range(3):
        pane.tick()
        await pilot.pause()


def append_numbered(path: Path, count: int, first: int = 0) -> None:
    with path.open("ab") as log:
        log.write(b"".join(b"line %06d\n" % n for n in range(first, first + count)))


async def test_the_end_is_followed_until_the_user_scrolls_up(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 1000)
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, pane, path)
        assert shown(pane)[-1] == "line 000999"
        append_numbered(path, 5, 1000)
        await settle(pilot, pane)
        assert shown(pane)[-1] == "line 001004"
        pane.focus()
        await pilot.press("up")
        append_numbered(path, 5, 1005)
        await settle(pilot, pane)
        assert not pane.follow
        assert shown(pane)[-1] == "line 001003"
        await pilot.press("down", "pagedown")
        append_numbered(path, 5, 1010)
        await settle(pilot, pane)
        assert pane.follow, "the cursor has reached the last line"
        assert shown(pane)[-1] == "line 001014"
        await pilot._post_mouse_events([MouseScrollUp], LogPane, button=0)
        await settle(pilot, pane)
        assert not pane.follow
        await pilot._post_mouse_events([MouseScrollDown], LogPane, button=0)
        await settle(pilot, pane)
        assert pane.follow


async def test_lines_that_arrive_out_of_sight_repaint_nothing(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 1000)
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, pane, path)
        pane.focus()
        await pilot.press("home")
        await settle(pilot, pane)
        before = pane.lines_drawn
        for n in range(5):
            append_numbered(path, 100, 1000 + n)
            pane.tick()
            await pilot.pause()
        assert pane.lines_drawn - before == 0
        assert "1,500 lines" in pane.summary


async def test_a_burst_draws_no_more_than_a_screenful(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 10)
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, pane, path)
        before = pane.lines_drawn
        append_numbered(path, 200_000)
        pane.tick()
        await pilot.pause()
        assert pane.lines_drawn - before <= 2 * 10


async def test_control_bytes_are_shown_and_never_executed(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    path.write_bytes(b"\x1b]0;pwn\x07\n[/usr/lib] [bold]\n\xff\xfe\x00\na\rb\n" + b"W" * 5_000_000 + b"\nlast\n")
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, pane, path)
        text = shown(pane)
        assert text[:6] == ["␛]0;pwn␇", "[/usr/lib] [bold]", "��␀", "␍b", "W" * 38 + "…", "last"]


async def test_a_filter_searches_the_whole_log_not_only_its_end(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    path.write_bytes(b"Loss=nan first\n" + b"nothing to see here\n" * 300_000 + b"loss=NAN last\n")
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        await open_pane(pilot, pane, path)
        pane.set_filter("loss=nan")
        await settle(pilot, pane)
        assert shown(pane)[:2] == ["Loss=nan first", "loss=NAN last"]
        assert "2 lines with “loss=nan”" in pane.summary
        pane.set_filter("not there")
        assert shown(pane)[0] == " Searching…"
        await settle(pilot, pane)
        assert shown(pane)[0] == " No lines match. Esc clears the filter."
        pane.set_filter("")
        await settle(pilot, pane)
        assert shown(pane)[-1] == "loss=NAN last"


async def test_without_colour_a_workers_number_is_as_bright_as_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 1)
    async with WidgetApp(pane).run_test(size=(40, 10)) as pilot:
        pane.open(FileLines(path, 4), show_worker=True)
        await settle(pilot, pane)
        assert shown(pane)[0] == "  4│line 000000"
        assert len({segment.style for segment in pane.render_line(0)}) == 1


async def test_long_lines_can_be_scrolled_sideways(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    path.write_bytes("".join(f"{n:04d}" for n in range(50)).encode() + b"\n")
    async with WidgetApp(pane).run_test(size=(41, 6)) as pilot:
        await open_pane(pilot, pane, path)
        pane.focus()
        await pilot.press("right")
        assert shown(pane)[0].startswith("00040005")
        assert "column 17" in pane.summary
        await pilot.press("left")
        assert shown(pane)[0].startswith("00000001")


async def test_a_line_too_long_to_be_shown_whole_names_the_missing_bytes(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    path.write_bytes(b"x" * (MAX_SHOWN_BYTES + 1_234) + b"\n")
    app = WidgetApp(pane)
    async with app.run_test(size=(61, 6)) as pilot:
        await open_pane(pilot, pane, path)
        pane.focus()
        await pilot.press("y")
        assert app.clipboard.endswith("x … 1,234 more bytes (tpu-tui logs prints them)")
        await pilot.press("w")
        await settle(pilot, pane)
        assert "".join(shown(pane)).endswith("x … 1,234 more bytes (tpu-tui logs prints them)")


async def test_a_wrapped_line_that_is_higher_than_the_pane_ends_in_an_ellipsis(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    path.write_bytes(b"x" * 500 + b"\n" + b"y" * 100 + b"\n" * 9)
    async with WidgetApp(pane).run_test(size=(41, 6)) as pilot:
        await open_pane(pilot, pane, path)
        pane.focus()
        await pilot.press("w", "g")
        assert shown(pane) == ["x" * 40] * 5 + ["x" * 39 + "…"]
        await pilot.press("down")
        assert "…" not in "".join(shown(pane)), "the last row of the line is visible now"


async def test_a_missing_log_is_shown_as_empty(tmp_path: Path) -> None:
    pane = LogPane()
    async with WidgetApp(pane).run_test(size=(41, 6)) as pilot:
        await open_pane(pilot, pane, tmp_path / "log")
        assert shown(pane)[0] == " Log is empty"


async def test_n_steps_through_hits_among_the_other_lines(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 1000)
    async with WidgetApp(pane).run_test(size=(60, 10)) as pilot:
        await open_pane(pilot, pane, path)
        pane.focus()
        pane.set_filter("50")
        await settle(pilot, pane)
        await pilot.press("home", "n")
        assert "line 000049" in shown(pane), "lines without the text are shown again"
        assert shown(pane)[3] == "line 000050"
        assert "1 of 20 lines" in pane.summary
        await pilot.press("n")
        assert shown(pane)[3] == "line 000150"
        await pilot.press("n", "N", "N", "N")
        assert shown(pane)[3] == "line 000050", "there is no hit before the first"
        append_numbered(path, 60, 1000)
        await settle(pilot, pane)
        assert "1 of 21 lines" in pane.summary, "the search covers new lines"
        await pilot.press("m")
        await settle(pilot, pane)
        assert shown(pane)[:2] == ["line 000050", "line 000150"]
        pane.set_filter("001059")
        await settle(pilot, pane)
        await pilot.press("w", "n")
        assert shown(pane) == [f"line 00{n}" for n in range(1050, 1060)], "the last line is at the bottom"
        pane.set_filter("")
        await settle(pilot, pane)
        await pilot.press("n")
        assert pane.summary.startswith("1,060 lines")


async def test_w_wraps_long_lines_and_y_copies_them_whole(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    path.write_bytes(b"".join(b"line %02d " % n + b"x" * 60 + b" end of %02d\n" % n for n in range(30)))
    app = WidgetApp(pane)
    async with app.run_test(size=(41, 7)) as pilot:
        await open_pane(pilot, pane, path)
        assert "end of" not in "".join(shown(pane))
        pane.focus()
        await pilot.press("w")
        await settle(pilot, pane)
        assert [line[:7] for line in shown(pane)] == [
            "x" * 7,
            *["line 27", "x" * 7, "line 28", "x" * 7, "line 29", "x" * 7],
        ]
        assert shown(pane)[-1].endswith("end of 29"), "the pane follows the end"
        await pilot.press("up")
        assert shown(pane)[0].startswith("line 25")
        await pilot.press(*["down"] * 4)
        await settle(pilot, pane)
        assert pane.follow
        await pilot.press("y")
        assert app.clipboard.splitlines()[-1].endswith(" end of 29")
        assert len(app.clipboard.splitlines()) == 4
        await pilot.press("g", "w")
        await settle(pilot, pane)
        assert shown(pane)[1].startswith("line 01")


async def test_a_pane_that_grows_while_lines_arrive_still_follows_the_end(tmp_path: Path) -> None:
    path, pane = tmp_path / "log", LogPane()
    append_numbered(path, 100)
    async with WidgetApp(pane).run_test(size=(60, 10)) as pilot:
        await open_pane(pilot, pane, path)
        append_numbered(path, 100, 100)
        pane.tick()  # counts the lines and leaves painting to a later tick
        await pilot.resize_terminal(60, 20)

        def is_painted() -> bool:
            pane.tick()
            return shown(pane)[-1] == "line 000199"

        await until(pilot, is_painted)
        assert pane.follow
