"""What a run's end means: who failed first, in which state the run is then, and what to say of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import UsageError
from tui.pod.run import LAST_WORDS, RunState
from tui.text.printable import one_line
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.pod.run import Run
    from tui.runs.worker.calls import Outcome

PARTNER_LOST = 75
"""Exit code of a worker that ended because another one did (sysexits.h: a temporary failure); never the culprit."""
_LONGEST_PAUSE = 300.0
_MOST_DOUBLINGS = 16
_SECONDS = "_seconds"
_LISTED_SINGLY = 4
_TAKEN_AWAY = ("TERM", "KILL", "HUP")
"""Signals that a machine's shutdown sends to what runs on it."""
_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 3
_LINE_LENGTH = 200
_BETWEEN_LINES = " | "


@dataclass(frozen=True)
class Patience:
    """How long a keeper waits for what, in seconds awake: a suspended laptop's clock stands still.

    A profile's `[thresholds]` sets each by its name and `_seconds`: `lost_after_seconds = 3600`.
    """

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
    ask_after: float = 10.0
    """A worker out of reach this long is a reason to ask the Cloud TPU API what became of the slice."""
    stalled_after: float = 600.0
    """A worker that wrote nothing for so long is told as silent: it may hang."""
    behind_after: float = 120.0
    """A core that has been behind the others (threshold `straggler`) for so long is told."""

    newer_acts: float = 180.0
    """What a newer keeper on another machine has to act on a failure, its stop's grace included: it may be asleep."""

    @classmethod
    def from_thresholds(cls, values: Mapping[str, float]) -> Patience:
        """Take what a profile's thresholds say. Raises UsageError for a while that is none."""
        given = {name: values[name + _SECONDS] for name in cls.__dataclass_fields__ if name + _SECONDS in values}
        for name, seconds in given.items():
            if not seconds >= 0:
                raise UsageError(f"threshold {name}{_SECONDS} is {seconds:g}", why="it should be 0 or more seconds")
        return cls(**given)

    def pause_before(self, attempt: int) -> float:
        """Seconds to wait before that attempt (the first restart is attempt 1)."""
        return float(min(self.restart_pause * 2 ** min(attempt - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE))

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


def is_unexplained(outcome: Outcome) -> bool:
    """Whether a machine that is taken away could have ended it so: a bare TERM or KILL, or nobody recorded how."""
    return not outcome.recorded or (outcome.signal in _TAKEN_AWAY and not outcome.out_of_memory)


def names_of(workers: Iterable[int]) -> str:
    """`worker 1`, `workers 0, 2, 3` or, of many, `workers 0-7,9`."""
    listed = sorted(workers)
    names = ", ".join(map(str, listed)) if len(listed) <= _LISTED_SINGLY else format_ranks(listed)
    return f"worker{'s' if len(listed) > 1 else ''} {names}"


def explain(worker: int, outcome: Outcome, last_lines: str) -> str:
    """One sentence about a worker's failure, with the last lines it wrote."""
    how = outcome.cause or f"exited with {outcome.exit_code}"
    if outcome.signal and outcome.cause:
        how = f"{outcome.cause} (exit code {outcome.exit_code})"
    return f"worker {worker} {how}" + (LAST_WORDS + last_lines if last_lines else "")


def remedy_of_kill(run: Run, worker: int, outcome: Outcome) -> str | None:
    """Return how to learn who killed a worker's process: nothing but SIGKILL itself is known of it there."""
    if outcome.signal != "KILL" or outcome.unreachable is not None:
        return None
    command = f"tpu-tui exec {run.slice} --worker {worker} -- dmesg | tail"
    if outcome.out_of_memory:
        return f"{command} names the process that it chose"
    return f"{command} shows whether it was the kernel, which kills where memory runs out"


def last_lines(path: Path) -> str:
    """The last lines of a log in one line, short and harmless to a terminal; empty when there are none."""
    return _BETWEEN_LINES.join(_newest_lines(path))


def last_lines_apart(path: Path, told: str) -> list[str]:
    """What `last_lines` made of a log, line by line; as it was told where the log does not end so any more."""
    lines = _newest_lines(path)
    return lines if _BETWEEN_LINES.join(lines) == told else [told]


def _newest_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            handle.seek(max(0, size - _TAIL_BYTES))
            lines = handle.read().splitlines()
    except OSError:
        return []
    return [one_line(line)[:_LINE_LENGTH] for line in lines if line.strip()][-_TAIL_LINES:]


def final_state(outcomes: Mapping[int, Outcome], *, stopped_by_person: bool, first: int | None) -> RunState:
    """The state of a run whose every part has ended or was given up; `first` is the first failure."""
    if any(outcome.unreachable is not None for outcome in outcomes.values()):
        return RunState.LOST
    if stopped_by_person:
        return RunState.STOPPED
    if first is None:
        return RunState.SUCCEEDED
    return RunState.FAILED if outcomes[first].recorded or outcomes[first].absent else RunState.LOST
