"""A line that describes how the workers of a run ended: the first failure, then the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tui.pod.run import LAST_WORDS, RunState
from tui.runs.failure_rules import PARTNER_LOST
from tui.runs.record.run_status import Restart, RunStatus
from tui.runs.record.worker_status import WorkerStatus
from tui.text.printable import format_count
from tui.text.ranks import format_ranks, name_ranks

UNKNOWN_CODE = "–"
_MOST_CODES = 8
"""Codes that are listed one by one, in the order of the workers."""
_MOST_NAMED = 3
"""Groups of workers that ended alike that are described."""
_MOST_CAUSES = 7
"""Different causes of restarts that are named."""
_STOPPED, _LOST_IT, _GOING_ON = "stopped", "lost it", "going on"
_STOP_SIGNALS = ("TERM", "KILL", "INT", "HUP")
_STOP_CODES = (143, 137, 130, 129)


def exit_summary(status: RunStatus) -> str:
    """Return `w5: 3 · others stopped (143)`; for a run without a failure only the workers' codes."""
    first = status.first_failure
    parts = {part.worker: part for part in status.workers}
    has_no_ends = status.state.is_over and not any(part.ended for part in parts.values())
    if first is None or first not in parts or has_no_ends or was_stopped_on_purpose(status):
        return _codes_in_order(status.exit_codes)
    culprit = f"w{first}: {_how(parts.pop(first))}"
    return " · ".join([culprit, *_of_others(status, list(parts.values()))])


def restart_sentences(restarts: Iterable[Restart]) -> list[str]:
    """Return `restarts 1-2: worker 1 exited with 3` for each cause of restarts; count those beyond the limit."""
    by_cause: dict[str, list[int]] = {}
    for restart in restarts:
        by_cause.setdefault(restart.cause.partition(LAST_WORDS)[0], []).append(restart.attempt)
    texts = [f"{name_ranks('restart', numbers)}: {cause}" for cause, numbers in by_cause.items()]
    if hidden := sum(len(numbers) for numbers in [*by_cause.values()][_MOST_CAUSES:]):
        texts[_MOST_CAUSES:] = [f"and {format_count(hidden, 'more restart')}"]
    return texts


def _codes_in_order(codes: Iterable[int | None]) -> str:
    """Return exit codes in worker order, `–` for an unknown one; where there are too many, count equal ones."""
    texts = [UNKNOWN_CODE if code is None else str(code) for code in codes]
    if len(texts) <= _MOST_CODES:
        return " ".join(texts)
    counts = {text: texts.count(text) for text in sorted(set(texts))}
    return " ".join(f"{text}×{count}" if count > 1 else text for text, count in counts.items())


def was_stopped_on_purpose(status: RunStatus) -> bool:
    """Return whether a person had the run stopped, so that its workers' exit codes are no failures."""
    return status.state is RunState.STOPPED or (status.first_failure is None and status.is_stopped_by_person)


def ended_with_the_others(status: RunStatus, part: WorkerStatus) -> bool:
    """Return whether a worker ended because of a stop or a lost partner, not because its own job failed."""
    if was_stopped_on_purpose(status):
        return True
    return part.worker != status.first_failure and _kind(status, part) in (_STOPPED, _LOST_IT)


def core_state_in_words(state: str, worker: int | None, first_failure: int | None) -> str:
    """Return a core's state as people read it: `failed` on the worker that failed first."""
    return "failed" if worker is not None and worker == first_failure else state


def _how(part: WorkerStatus) -> str:
    if part.signal:
        return f"SIG{part.signal}"
    return UNKNOWN_CODE if part.exit_code is None else str(part.exit_code)


def _of_others(status: RunStatus, parts: list[WorkerStatus]) -> list[str]:
    """Return how all but the first failure ended; workers that ended alike share a text."""
    groups: dict[str, list[WorkerStatus]] = {}
    for part in parts:
        groups.setdefault(_kind(status, part), []).append(part)
    texts = [_group_in_words(kind, group, len(group) == len(parts)) for kind, group in sorted(groups.items())]
    if len(texts) > _MOST_NAMED:
        texts[_MOST_NAMED:] = [f"and {len(texts) - _MOST_NAMED} more"]
    return texts


def _kind(status: RunStatus, part: WorkerStatus) -> str:
    if not part.ended:
        return UNKNOWN_CODE if status.state.is_over else _GOING_ON
    if part.exit_code == PARTNER_LOST:
        return _LOST_IT
    if status.stop_requested is not None and (part.signal in _STOP_SIGNALS or part.exit_code in _STOP_CODES):
        return _STOPPED
    return _how(part)


def _group_in_words(kind: str, group: list[WorkerStatus], is_all: bool) -> str:
    if kind not in (_STOPPED, _LOST_IT, _GOING_ON):
        subject = "others" if is_all and len(group) > 1 else f"w{format_ranks(part.worker for part in group)}"
        return f"{subject}: {kind}"
    codes = sorted({str(part.exit_code) for part in group if part.ended and part.exit_code is not None})
    subject = ("others" if len(group) > 1 else "the other") if is_all else str(len(group))
    return f"{subject} {kind}" + (f" ({', '.join(codes)})" if codes else "")
