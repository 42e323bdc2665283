"""Tests of the key `e`, which writes the report in every readable form into the run's directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.driving import SMALL, fail, opened_run, running, until
from tests.console.stage import StageOperator
from tui.console.app import ConsoleApp

pytestmark = pytest.mark.timing


def _notifications_text(app: ConsoleApp) -> str:
    return "\n".join(str(notification.message) for notification in app._notifications)


async def test_the_report_of_a_run_is_written_into_its_directory(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    async with opened_run(operator, directory) as (app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: str(directory.path) in _notifications_text(app))
        assert "report.html" in _notifications_text(app)
    for name, content in (("html", "<html"), ("md", "# Run"), ("txt", "Outcome"), ("json", "{")):
        assert content in (directory.path / f"report.{name}").read_text()


async def test_an_unwritable_report_is_named_with_the_cause(operator: StageOperator) -> None:
    directory = running(operator)
    fail(directory)
    (directory.path / "report.html").mkdir()
    async with opened_run(operator, directory, SMALL) as (app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: "report.html" in _notifications_text(app))
        assert "Traceback" not in _notifications_text(app)
        assert "irectory" in _notifications_text(app)
    assert not list(Path(directory.path).glob("report.html/*"))
