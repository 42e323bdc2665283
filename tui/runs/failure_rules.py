"""Rules about how the workers' parts of a run ended: the first failure, its explanation, the final state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from tui.pod.run import LAST_WORDS, Run, RunState
from tui.settings.home import open_regular
from tui.text.printable import one_line

PARTNER_LOST = 75
"""Exit code of a worker that ended because another one did (EX_TEMPFAIL of sysexits.h): never the first failure."""
_TAKEN_AWAY = ("TERM", "KILL", "HUP")
"""Signals that a shutdown of the machine sends to its processes."""
_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 3
_LINE_LENGTH = 200
_BETWEEN_LINES = " | "


@dataclass(frozen=True)
class WorkerOutcome:
    """The end of one worker's part of a run, as its `status` file describes it.

    `exit_code` is 128 + number for a signal, as shells count; None means that it was not recorded. `size` is the
    final length of the log in bytes.
    """

    exit_code: int | None
    signal: str | None = None
    size: int | None = None
    time: str | None = None
    aborted: bool = False
    out_of_memory: bool = False
    recorded: bool = True
    absent: bool = False
    """Whether the worker does not know the run: it was never prepared there, or its directory was removed."""
    removed: bool = False
    """Whether the run's directory on the worker was removed before this machine knew how its part ended."""
    stopped: bool = False
    """Whether a person stopped the run, on any machine."""
    unreachable: str | None = None
    """Why the worker was given up as unreachable; the job may still be running there."""

    @property
    def cause(self) -> str | None:
        """Return a description of the end where more is known than the exit code."""
        if self.unreachable is not None:
            return self.unreachable
        if self.absent:
            return "does not know the run: it was not started there, or its directory was removed"
        if self.removed:
            return "cannot report how it ended: its directory was removed there, as `runs delete` does"
        if not self.recorded:
            return "ended without a record: its supervisor was killed, or the machine went down"
        if self.aborted:
            return "ended before its launch was confirmed"
        if self.signal == "KILL" and self.out_of_memory:
            return "killed (SIGKILL), probably out of memory: the kernel's OOM killer acted on this worker"
        if self.signal:
            return f"ended by SIG{self.signal}"
        if self.exit_code is None:
            return "ended; its exit code could not be recorded"
        return None


def has_failed(outcome: WorkerOutcome) -> bool:
    """Return whether a worker's part ended badly."""
    return outcome.exit_code != 0 or not outcome.recorded


def first_failure(outcomes: Mapping[int, WorkerOutcome]) -> int | None:
    """Return the worker that failed first by the workers' own clocks; recorded ends come before unrecorded ones.

    Workers that ended because they lost a partner count only where no other worker failed.
    """
    broken = {worker: outcome for worker, outcome in outcomes.items() if has_failed(outcome)}
    if not broken:
        return None

    def order(worker: int) -> tuple[bool, bool, str, int]:
        outcome = broken[worker]
        return outcome.exit_code == PARTNER_LOST, not outcome.time, outcome.time or "", worker

    return min(broken, key=order)


def have_only_lost_partners(outcomes: Mapping[int, WorkerOutcome]) -> bool:
    """Return whether every worker that has failed so far ended because it lost a partner."""
    ended = [outcome for outcome in outcomes.values() if outcome.unreachable is None]
    return all(outcome.exit_code == PARTNER_LOST for outcome in ended if has_failed(outcome))


def is_unexplained(outcome: WorkerOutcome) -> bool:
    """Return whether the loss of the machine could explain this end: a bare TERM or KILL, or no record at all."""
    return not outcome.recorded or (outcome.signal in _TAKEN_AWAY and not outcome.out_of_memory)


def explain(worker: int, outcome: WorkerOutcome, last_lines: str) -> str:
    """Describe a worker's failure in one sentence, with the last lines that it wrote."""
    how = outcome.cause or f"exited with {outcome.exit_code}"
    if outcome.signal and outcome.cause:
        how = f"{outcome.cause} (exit code {outcome.exit_code})"
    return f"worker {worker} {how}" + (LAST_WORDS + last_lines if last_lines else "")


def remedy_of_kill(run: Run, worker: int, outcome: WorkerOutcome) -> str | None:
    """Return how to find out what killed a worker's process: the worker knows only that SIGKILL ended it."""
    if outcome.signal != "KILL" or outcome.unreachable is not None:
        return None
    command = f"tpu-tui exec {run.slice} --worker {worker} -- dmesg | tail"
    if outcome.out_of_memory:
        return f"{command} names the process that the kernel chose"
    return f"{command} shows whether it was the kernel, which kills where memory runs out"


def read_last_lines(path: Path, count: int = _TAIL_LINES) -> str:
    """Return a log's last lines joined into one, short and safe for a terminal; empty when there are none."""
    return _BETWEEN_LINES.join(_newest_lines(path)[-count:])


def split_last_lines(path: Path, joined: str) -> list[str]:
    """Split what `read_last_lines` returned for a log; return it whole where the log has changed since."""
    lines = _newest_lines(path)
    return lines if _BETWEEN_LINES.join(lines) == joined else [joined]


def _newest_lines(path: Path) -> list[str]:
    try:
        with FileIO(open_regular(path)) as handle:
            size = handle.seek(0, 2)
            handle.seek(max(0, size - _TAIL_BYTES))
            lines = handle.read().splitlines()
    except OSError:
        return []
    return [one_line(line)[:_LINE_LENGTH] for line in lines if line.strip()][-_TAIL_LINES:]


def exit_fields(outcome: WorkerOutcome) -> dict[str, Any]:
    """Return the fields of an event that describe the end of a worker's part."""
    return {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "cause": outcome.cause,
        "ended": outcome.time,
        "recorded": outcome.recorded,
    }


def final_state(outcomes: Mapping[int, WorkerOutcome], *, stopped_by_person: bool, first: int | None) -> RunState:
    """Return the final state of a run: every part has ended or was given up; `first` is the first failure."""
    if any(outcome.unreachable is not None for outcome in outcomes.values()):
        return RunState.LOST
    if stopped_by_person:
        return RunState.STOPPED
    if first is None:
        return RunState.SUCCEEDED
    return RunState.FAILED if outcomes[first].recorded or outcomes[first].absent else RunState.LOST
