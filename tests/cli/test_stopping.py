"""The line that `stop` prints for each worker."""

from __future__ import annotations

import pytest

from tui.commands.stop import _in_words, interrupted_note
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
        (StopAnswer(0, True, 7, "already finished"), "had already ended, exit code 7"),
        (StopAnswer(0, True, None, "already finished"), "had already ended"),
        (StopAnswer(0, False, None, "no answer"), "NOT CONFIRMED (no answer)"),
    ],
)
def test_a_job_that_never_started_is_not_reported_as_stopped(answer: StopAnswer, printed: str) -> None:
    assert _in_words(answer) == printed


def test_an_interrupted_stop_goes_on_where_the_run_has_a_keeper() -> None:
    assert interrupted_note("r-1", [0, 1], continues=True) == (
        "Interrupted: no answer yet from workers 0-1. The run's keeper continues the stop; "
        "tpu-tui status r-1 shows its end."
    )
    assert interrupted_note("r-1", [1], continues=False) == (
        "Interrupted: no answer yet from worker 1. Try again with tpu-tui stop r-1."
    )
