"""The line that `stop` prints for each worker."""

from __future__ import annotations

import pytest

from tui.commands.stop import _in_words
from tui.runs.worker.stop import StopAnswer


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        (StopAnswer(0, True, 143), "stopped, exit code 143"),
        (StopAnswer(0, True, None, "nothing to stop: never started"), "nothing to stop: never started"),
        (
            StopAnswer(0, False, None, "nothing to stop: never started"),
            "NOT CONFIRMED (nothing to stop: never started)",
        ),
        (StopAnswer(0, False, None, "no answer"), "NOT CONFIRMED (no answer)"),
    ],
)
def test_a_job_that_never_started_is_not_reported_as_stopped(answer: StopAnswer, printed: str) -> None:
    assert _in_words(answer) == printed
