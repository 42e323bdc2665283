"""What a run's end means: who failed first, in which state the run is then, and what to say of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tui.pod.run import RunState
from tui.printable import one_line
from tui.runs.remote import Outcome

DRAIN = 5.0
"""Seconds after a first failure in which others' may still come in, so that the true first one is named."""
_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 3
_LINE_LENGTH = 200


def failed(outcome: Outcome) -> bool:
    """Whether a worker's part ended as it should not have."""
    return outcome.exit_code != 0 or not outcome.recorded


def first_failure(outcomes: Mapping[int, Outcome]) -> int | None:
    """The worker that failed first, by the workers' own clocks; unrecorded ends come after recorded ones."""
    broken = {worker: outcome for worker, outcome in outcomes.items() if failed(outcome)}
    if not broken:
        return None
    return min(broken, key=lambda worker: (not broken[worker].time, broken[worker].time or "", worker))


def explain(worker: int, outcome: Outcome, last_lines: str) -> str:
    """One sentence about a worker's failure, with the last lines it wrote."""
    how = outcome.cause or f"exited with {outcome.exit_code}"
    if outcome.signal and outcome.cause:
        how = f"{outcome.cause} (exit code {outcome.exit_code})"
    return f"worker {worker} {how}" + (f"; its last lines: {last_lines}" if last_lines else "")


def last_lines(path: Path) -> str:
    """The last lines of a log, short and harmless to a terminal; empty when there are none."""
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            handle.seek(max(0, size - _TAIL_BYTES))
            lines = handle.read().splitlines()
    except OSError:
        return ""
    shown = [one_line(line)[:_LINE_LENGTH] for line in lines if line.strip()]
    return " | ".join(shown[-_TAIL_LINES:])


def final_state(outcomes: Mapping[int, Outcome], *, stopped_by_person: bool, first: int | None) -> RunState:
    """The state of a run whose every part has ended; `first` is the first failure."""
    if stopped_by_person:
        return RunState.STOPPED
    if first is None:
        return RunState.SUCCEEDED
    return RunState.FAILED if outcomes[first].recorded else RunState.LOST
