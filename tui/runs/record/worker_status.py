"""A worker's part in a run, folded from its events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.runs.failure_rules import WorkerOutcome
from tui.runs.record.event_log import Event

_MOST_DIGITS = 20


@dataclass(frozen=True)
class WorkerStatus:
    """One worker's part in a run, by the last events about it.

    `phase` is the last phase of its launch (`tui.runs.launch.phases`) and `phase_status` the state of that phase
    (started, done, failed). `link` is lost or restored, None if it was never lost. `ended`: the job has ended there;
    `exit_code` is None until then, and if it was not recorded. `confirmed` is the worker's answer to a stop.
    """

    worker: int
    phase: str | None = None
    phase_status: str | None = None
    detail: str | None = None
    remedy: str | None = None
    """What the user can do about a phase that failed."""
    link: str | None = None
    link_detail: str | None = None
    link_since: str | None = None
    """When the link was lost or restored (RFC 3339)."""
    ended: bool = False
    exit_code: int | None = None
    signal: str | None = None
    size: int | None = None
    exit_cause: str | None = None
    ended_at: str | None = None
    recorded: bool = True
    confirmed: bool | None = None
    stop_detail: str | None = None
    silent: bool = False
    """Whether it has written nothing for longer than the threshold, so that it may hang."""
    tag: str | None = None
    """The tag of every process of the job there, if the launch recorded it."""

    @property
    def has_begun(self) -> bool:
        """Return whether the job is known to have started there."""
        return self.phase == "confirm" or (self.phase == "start" and self.phase_status == "done")

    @property
    def outcome(self) -> WorkerOutcome:
        """Return how the job ended there."""
        return WorkerOutcome(self.exit_code, self.signal, self.size, self.ended_at, recorded=self.recorded)


class WorkerParts:
    """The workers' parts: the fields of each are gathered from events, and made a WorkerStatus on demand."""

    def __init__(self, indices: Iterable[int]) -> None:
        self._known: dict[int, dict[str, Any]] = {index: {} for index in indices}
        self._made: dict[int, WorkerStatus] = {}
        self._all: tuple[WorkerStatus, ...] | None = None

    def fold_in(self, index: int, event: Event) -> None:
        """Fold in an event about a worker, which need not be one on which the run was launched."""
        fields = self._known.setdefault(index, {})
        self._change(index, worker_changes(event, fields.get("exit_code"), ended=fields.get("ended", False)))

    def set_silent(self, indices: Iterable[int], silent: bool) -> None:
        """Note for each of these workers, if the run has it, whether it has written nothing for long."""
        for index in indices:
            if index in self._known:
                self._change(index, {"silent": silent})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Note the tags of the jobs that are about to start, by worker."""
        for index in self._known:
            tag = tags.get(str(index))
            if isinstance(tag, str) and is_tag(tag):
                self._change(index, {"tag": tag})

    def reset(self) -> None:
        """Forget all events, because another attempt begins."""
        self._known = {index: {} for index in self._known}
        self._made.clear()
        self._all = None

    def list_parts(self) -> tuple[WorkerStatus, ...]:
        """Return every part, in the order of the workers."""
        if self._all is None:
            for index in self._known.keys() - self._made.keys():
                self._made[index] = WorkerStatus(index, **self._known[index])
            self._all = tuple(self._made[index] for index in sorted(self._made))
        return self._all

    def _change(self, index: int, changes: Mapping[str, Any]) -> None:
        if changes:
            self._known[index].update(changes)
            self._made.pop(index, None)
            self._all = None


def is_tag(text: str) -> bool:
    """Return whether a text may be a tag that a worker chose: a resource limit of 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def worker_changes(event: Event, exit_code: int | None, *, ended: bool) -> dict[str, Any]:
    """Return what an event changes in a worker's part, given whether it has ended and its exit code."""
    get = event.fields.get
    if event.kind == "phase":
        return {
            "phase": get("phase"),
            "phase_status": get("status"),
            "detail": get("detail") or None,
            "remedy": get("remedy") or None,
        }
    if event.kind == "exit":
        return {
            "ended": True,
            "exit_code": get("exit_code"),
            "signal": get("signal"),
            "size": get("size"),
            "exit_cause": get("cause"),
            "ended_at": get("ended") or event.time,
            "recorded": get("recorded") is not False,
        }
    if event.kind == "link":
        return {"link": get("status"), "link_detail": get("detail") or None, "link_since": event.time}
    if event.kind == "stop":
        return {
            "ended": ended or bool(get("confirmed")),
            "exit_code": exit_code if exit_code is not None else get("exit_code"),
            "confirmed": bool(get("confirmed")),
            "stop_detail": get("detail") or None,
        }
    return {}
