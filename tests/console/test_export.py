"""`e` writes the report in every form that people read, where the run's record is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.driving import SMALL, fail, opened_run, running, until
from tests.console.stage import StageOperator
from tui.console.app import ConsoleApp

pytestmark = pytest.mark.timing


def _told(app: ConsoleApp) -> str:
    return "\n".join(str(notification.message) for notification in app._notifications)


async def test_a_run_s_report_is_written_beside_its_record(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: str(directory.path) in _told(app))
        assert "report.html" in _told(app)
    for name, holds in (("html", "<html"), ("md", "# Run"), ("txt", "Outcome"), ("json", "{")):
        assert holds in (directory.path / f"report.{name}").read_text()


async def test_a_report_that_cannot_be_written_says_where_and_why(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    (directory.path / "report.html").mkdir()
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: "report.html" in _told(app))
        assert "Traceback" not in _told(app)
        assert "irectory" in _told(app)
    assert not list(Path(directory.path).glob("report.html/*"))
