"""A run: its ID, what was launched on which workers, and its states."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from tui.pod.accelerator import parse
from tui.pod.job_options import JobOptions, OptionKind
from tui.pod.run_names import safe_name
from tui.pod.worker import MOST_PORT, MOST_WORKERS, RUN_ROOT, SSH_PORT, Worker
from tui.text.numbers import is_integer

SCHEMA = 1
REHEARSAL_MODULE = "tui.localpod.rehearsal"
LAST_WORDS = "; its last lines: "
"""Separates the cause of a failure from the last lines of its worker."""
_MOST_CORES = 1_000_000
_WORKER_FIELDS = tuple(item.name for item in fields(Worker) if item.name not in ("reachable", "error", "remedy"))
"""The fields of a worker in a record: all except the results of a connection test."""
_WORKER_TEXTS = tuple(name for name in _WORKER_FIELDS if name not in ("index", "port", "host_keys"))
_RUN_ID = re.compile(r"(?P<base>[A-Za-z0-9._-]+)-(?P<day>\d{8})-(?P<clock>\d{6})-(?P<tail>[0-9a-f]{4})")


def is_rehearsal_command(argv: Sequence[str]) -> bool:
    """Return whether a command is the rehearsal job, which prints made-up trainer output."""
    return any(argument == REHEARSAL_MODULE or argument.endswith("localpod/rehearsal.py") for argument in argv)


_worker = lru_cache(maxsize=1024)(Worker)
"""Makes each worker once: thousands of runs on one slice have the same workers."""


class RunState(str, enum.Enum):
    """The state of a run; `LOST` means ended with an unrecorded outcome."""

    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    def __str__(self) -> str:
        return self.value

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended."""
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED, RunState.LOST)


def make_run_id(base: str, now: datetime | None = None) -> str:
    """Return `<name, else slice>-<YYYYmmdd-HHMMSS>-<4 hex>` in UTC; unsafe characters become `-`."""
    moment = now or datetime.now(timezone.utc)
    return f"{safe_name(base) or 'run'}-{moment.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def is_run_id(text: str) -> bool:
    """Return whether the text has the form of a run ID."""
    return _RUN_ID.fullmatch(text) is not None


@dataclass(frozen=True)
class Run:
    """The content of run.json: a run's identity and everything needed to find, show and explain it.

    On record, `job` has no secret values. `workers` are those of the launch, with their addresses at that time.
    """

    id: str
    slice: str
    job: JobOptions
    workers: tuple[Worker, ...]
    name: str | None = None
    zone: str | None = None
    source: str | None = None
    """The slice's source. Older records have None: the Cloud TPU API or, without a zone, a hosts file."""
    project: str | None = None
    profile: str | None = None
    accelerator_type: str | None = None
    tpu_node: str | None = None
    """The TPU Node that the workers drive; None for workers that have TPUs themselves."""
    node_endpoints: tuple[str, ...] = ()
    """`ip:port` of each of its endpoints."""
    spot: bool | None = None
    """Whether the slice can be preempted; None where its source does not say."""
    slice_created: str | None = None
    """When the slice was created: a later slice of the same name has another time."""
    cores_per_worker: int | None = None
    run_root: str = RUN_ROOT
    code_hash: str | None = None
    lease: float = 30.0
    created: str = ""
    """When the launch was requested (RFC 3339)."""
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def slice_path(self) -> str:
        """`zone/name` of the slice, or the bare name without a zone; SLICE arguments accept it."""
        return f"{self.zone}/{self.slice}" if self.zone else self.slice

    @property
    def is_rehearsal(self) -> bool:
        """Return whether it is the rehearsal job of a local pod."""
        return is_rehearsal_command(self.job.argv)

    @property
    def cores_expected(self) -> int | None:
        """XLA devices of all workers, as the slice reports or its accelerator type implies; None if unknown."""
        if self.cores_per_worker:
            return self.cores_per_worker * len(self.workers)
        accelerator = parse(self.accelerator_type or "")
        return accelerator.devices if accelerator is not None and accelerator.workers == len(self.workers) else None

    def without_secrets(self) -> Run:
        """Return the run with secret values masked, as recorded."""
        return replace(self, job=self.job.without_secrets())

    def to_json(self) -> dict[str, Any]:
        """Return the document that is written to run.json, here and on every worker."""
        document: dict[str, Any] = {**self.__dict__, **self.job.to_json()}
        del document["job"]
        document["versions"] = dict(self.versions)
        document["node_endpoints"] = list(self.node_endpoints)
        document["workers"] = [
            {name: getattr(worker, name) for name in _WORKER_FIELDS} | {"host_keys": list(worker.host_keys)}
            for worker in self.workers
        ]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Run:
        """Parse run.json, ignoring fields of newer versions. Raises ValueError for anything else."""
        if not isinstance(document, Mapping):
            raise ValueError("not a run.json: it is not an object")
        missing = [name for name in ("id", "slice", "argv", "workers") if name not in document]
        if missing:
            raise ValueError(f"not a run.json: {missing[0]} is missing")
        for name, (accepts, expected) in _FIELDS.items():
            if name in document and not accepts(document[name]):
                raise _wrong(name, expected)
        values = {name: document[name] for name in _FIELDS if name in document}
        values["node_endpoints"] = tuple(document.get("node_endpoints", ()))
        return cls(job=JobOptions.from_json(document), workers=_read_workers(document["workers"]), **values)


def _read_workers(rows: Any) -> tuple[Worker, ...]:
    """Parse the workers of a record. Raises ValueError for an invalid index, port, name or address."""
    if not isinstance(rows, (list, tuple)) or not 1 <= len(rows) <= MOST_WORKERS:
        raise _wrong("workers", "a list of at least one worker")
    workers = tuple(map(_read_worker, rows))
    if len({worker.index for worker in workers}) < len(workers):
        raise _wrong("workers", "a list with each index once")
    return workers


def _read_worker(row: Any) -> Worker:
    if not isinstance(row, Mapping):
        raise _wrong("a worker", "an object")
    index, port, keys = row.get("index"), row.get("port") or SSH_PORT, row.get("host_keys") or ()
    if not is_integer(index, 0, MOST_WORKERS - 1):
        raise _wrong("the index of a worker", f"an integer from 0 to {MOST_WORKERS - 1}")
    if not is_integer(port, 1, MOST_PORT):
        raise _wrong(f"the port of worker {index}", f"an integer from 1 to {MOST_PORT}")
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) for key in keys):
        raise _wrong(f"host_keys of worker {index}", "a list of texts")
    for name in _WORKER_TEXTS:
        if not OptionKind.TEXT.accepts(row.get(name)):
            raise _wrong(f"{name} of worker {index}", "a text")
    texts = {name: row.get(name) for name in _WORKER_TEXTS}
    return _worker(index=index, port=port, host_keys=tuple(keys), **texts)


def _wrong(name: str, expected: str) -> ValueError:
    return ValueError(f"not a run.json: {name} should be {expected}")


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "a text"),
    "str | None": (OptionKind.TEXT.accepts, OptionKind.TEXT.value),
    "tuple[str, ...]": (OptionKind.WORDS.accepts, OptionKind.WORDS.value),
    "float": (OptionKind.SECONDS.accepts, OptionKind.SECONDS.value),
    "Mapping[str, str]": (OptionKind.VARIABLES.accepts, OptionKind.VARIABLES.value),
    "int | None": (lambda value: value is None or is_integer(value, 0, _MOST_CORES), "an integer or null"),
    "bool | None": (lambda value: value is None or isinstance(value, bool), "true, false or null"),
    "int": (lambda value: is_integer(value, 0), "an integer"),
}
_FIELDS = {item.name: _KINDS[str(item.type)] for item in fields(Run) if item.name not in ("job", "workers")}
"""What each field of run.json must be, by its type, except the job's options and the workers."""
