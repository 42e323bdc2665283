"""What a run's end means: who failed first, in which state the run is then, and what to say of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tui.pod.run import RunState
from tui.printable import one_line
from tui.runs.remote import Outcome

PARTNER_LOST = 75
"""Exit code of a worker that ended because another one did (sysexits.h: a temporary failure); never the culprit."""
_LONGEST_PAUSE = 300.0
_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 3
_LINE_LENGTH = 200


@dataclass(frozen=True)
class Patience:
    """How long a keeper waits for what, in seconds awake: a suspended laptop's clock stands still."""

    drain: float = 5.0
    """After a first failure: others that failed before it may still come in, so that the true first one is named."""
    lost_after: float = 6 * 3600.0
    """Out of reach this long, with nobody else of the run in reach either, a worker is given up as lost."""
    gone_after: float = 1800.0
    """The same where other workers were reached meanwhile (so the network here is fine) and none of them runs on."""
    answer: float = 5.0
    """Beyond a launch's lease: a worker's last word may still come."""
    restart_pause: float = 5.0
    """Before the first restart; it doubles with every further one, up to five minutes."""

    def pause_before(self, attempt: int) -> float:
        """Seconds to wait before that attempt (the first restart is attempt 1)."""
        return float(min(self.restart_pause * 2 ** (attempt - 1), _LONGEST_PAUSE))

    def to_json(self) -> dict[str, Any]:
        """A document for the keeper's pipe."""
        return asdict(self)


def failed(outcome: Outcome) -> bool:
    """Whether a worker's part ended as it should not have."""
    return outcome.exit_code != 0 or not outcome.recorded


def first_failure(outcomes: Mapping[int, Outcome]) -> int | None:
    """The worker that failed first, by the workers' own clocks; unrecorded ends come after recorded ones.

    One that only lost a partner is named when nobody else failed.
    """
    broken = {worker: outcome for worker, outcome in outcomes.items() if failed(outcome)}
    if not broken:
        return None

    def order(worker: int) -> tuple[bool, bool, str, int]:
        outcome = broken[worker]
        return outcome.exit_code == PARTNER_LOST, not outcome.time, outcome.time or "", worker

    return min(broken, key=order)


def only_lost_partners(outcomes: Mapping[int, Outcome]) -> bool:
    """Whether everybody who failed so far failed because of somebody else."""
    ended = [outcome for outcome in outcomes.values() if outcome.unreachable is None]
    return all(outcome.exit_code == PARTNER_LOST for outcome in ended if failed(outcome))


def names_of(workers: Iterable[int]) -> str:
    """`worker 1` or `workers 0, 2, 3`."""
    listed = sorted(workers)
    return f"worker{'s' if len(listed) > 1 else ''} {', '.join(map(str, listed))}"


def in_time(seconds: float) -> str:
    """A while in words, to the unit that matters: `90 s`, `30 min`, `6 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


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
    """The state of a run whose every part has ended or was given up; `first` is the first failure."""
    if any(outcome.unreachable is not None for outcome in outcomes.values()):
        return RunState.LOST
    if stopped_by_person:
        return RunState.STOPPED
    if first is None:
        return RunState.SUCCEEDED
    return RunState.FAILED if outcomes[first].recorded else RunState.LOST
