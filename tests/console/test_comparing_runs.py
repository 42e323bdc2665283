"""Tests of marking runs on the pod screen and comparing them."""

from __future__ import annotations

import pytest

from tests.console.driving import FULL, SMALL, dialog_text, opened_pod, shown, table, until
from tests.console.stage import StageOperator, a_slice, begin, make_run, train
from tui.console.screens.dialog import TextDialog
from tui.console.screens.pod import PodScreen
from tui.runs.record.run_directory import RunDirectory

pytestmark = pytest.mark.timing


def run_of(operator: StageOperator, name: str, steps: range) -> RunDirectory:
    directory = RunDirectory.create(
        operator.settings.runs_home, make_run(a_slice(), id=f"{name}-20261121-090000-a1b2")
    )
    begin(directory)
    train(directory, steps)
    return directory


@pytest.mark.parametrize("size", [FULL, SMALL])
async def test_marked_runs_are_compared(operator: StageOperator, size: tuple[int, int]) -> None:
    first, second = (run_of(operator, name, range(0, end, 5)) for name, end in (("one", 50), ("two", 100)))
    async with opened_pod(operator, size) as (app, pilot):
        runs = table(app, "runs")
        await until(pilot, lambda: runs.row_count() == 2)
        runs.focus()
        await pilot.press("equals_sign")
        await until(pilot, lambda: any("mark two or more" in str(note.message) for note in app._notifications))
        row = runs.row_of(first.id)
        assert row is not None
        runs.action_cursor_to(row)
        await pilot.press("space")
        await until(pilot, lambda: f"✓ {first.id[:12]}" in shown(runs))
        await pilot.press("down" if row == 0 else "up")
        await until(pilot, lambda: runs.cursor_key == second.id)
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(app.screen, TextDialog) and dialog_text(app))
        text = dialog_text(app)
        assert f"1  {first.id}\n2  {second.id}" in text
        figures = {words[0]: words[1:] for line in text.splitlines() if (words := line.split())}
        assert figures["step"] == ["45", "95"]
        assert figures["cores"] == ["32", "32"]
        assert isinstance(app.screen, TextDialog)
        assert f"compare {first.id} {second.id}" in app.screen.equivalent()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        runs.action_cursor_to(row)
        await pilot.press("space")
        await until(pilot, lambda: "✓" not in shown(runs))
