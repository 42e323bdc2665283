"""A run: its id, what was launched on which workers, and the states it goes through."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from tui.pod.worker import Worker

SCHEMA = 1
MASK = "********"
REHEARSAL_MODULE = "tui.localpod.rehearsal"
LOCAL_PROFILE = "local"
"""The profile that a local pod writes while it lives."""
LAST_WORDS = "; its last lines: "
"""Parts the cause of a failure from what its worker wrote last."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_LENGTH = 100
"""Characters of a name that go into a run's id, which names files here and on the workers."""
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_OF_TYPES: tuple[tuple[tuple[str, ...], tuple[type, ...]], ...] = (
    (("id", "slice", "created", "run_root", "runtime", "on_failure"), (str,)),
    (("name", "zone", "project", "profile", "accelerator_type", "slice_created"), (str, type(None))),
    (("workdir", "conda_env", "venv", "code_hash"), (str, type(None))),
    (("restarts", "grace", "lease"), (int, float)),
    (("cores_per_worker",), (int, type(None))),
    (("env", "versions"), (dict,)),
)
"""What fields of run.json have to be: a record that is damaged is told as that, not met by whoever reads it."""
_RUN_ID = re.compile(r"(?P<base>[A-Za-z0-9._-]+)-(?P<day>\d{8})-(?P<clock>\d{6})-(?P<tail>[0-9a-f]{4})")


def rehearses(argv: Sequence[str]) -> bool:
    """Whether a command is the rehearsal job, which prints a trainer's lines and trains nothing."""
    return any(word == REHEARSAL_MODULE or word.endswith("localpod/rehearsal.py") for word in argv)


_worker = lru_cache(maxsize=1024)(Worker)
"""Runs on one slice have the same workers: of thousands of runs that are read at once each is made once."""


class RunState(str, enum.Enum):
    """What a run is doing; `LOST` means ended without anybody recording how."""

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
        """Whether nothing of the run can still be running."""
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED, RunState.LOST)


def make_run_id(base: str, now: datetime | None = None) -> str:
    """`<name, else slice>-<YYYYmmdd-HHMMSS>-<4 hex>` in UTC; characters a path or shell minds become `-`."""
    moment = now or datetime.now(timezone.utc)
    safe = _UNSAFE.sub("-", base)[:_NAME_LENGTH].strip("-.") or "run"
    return f"{safe}-{moment.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def is_run_id(text: str) -> bool:
    """Whether the text has the shape of a run id."""
    return _RUN_ID.fullmatch(text) is not None


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value must not be written anywhere."""
    return _SECRET.search(name) is not None


def mask_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """The variables with secret values replaced, fit for run.json, reports and logs."""
    return {name: MASK if is_secret(name) else value for name, value in env.items()}


@dataclass(frozen=True)
class Run:
    """What run.json holds: a run's identity and everything needed to find, show and explain it.

    `env` never holds secret values. `workers` are those of the launch, with the addresses they had then.
    """

    id: str
    slice: str
    argv: tuple[str, ...]
    workers: tuple[Worker, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    zone: str | None = None
    project: str | None = None
    profile: str | None = None
    accelerator_type: str | None = None
    slice_created: str | None = None
    """When the slice was made, as its source tells it: another one of the same name was made at another time."""
    cores_per_worker: int | None = None
    runtime: str = "pjrt"
    run_root: str = "~/.tpu-tui"
    workdir: str | None = None
    conda_env: str | None = None
    venv: str | None = None
    code_hash: str | None = None
    on_failure: str = "stop"
    restarts: int = 0
    grace: float = 30.0
    lease: float = 30.0
    on_end: tuple[str, ...] = ()
    """What the launching machine does when it has ended (`tui.runs.on_end`)."""
    created: str = ""
    """RFC 3339, when the launch was asked for."""
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def is_rehearsal(self) -> bool:
        """Whether it is the local pod's rehearsal job."""
        return rehearses(self.argv)

    def to_json(self) -> dict[str, Any]:
        """The document written to run.json, here and on every worker."""
        document: dict[str, Any] = dict(self.__dict__)
        document["argv"] = list(self.argv)
        document["on_end"] = list(self.on_end)
        document["env"] = mask_secrets(self.env)
        document["versions"] = dict(self.versions)
        document["workers"] = [
            {
                "index": worker.index,
                "hostname": worker.hostname,
                "internal_ip": worker.internal_ip,
                "external_ip": worker.external_ip,
                "port": worker.port,
                "user": worker.user,
                "host_keys": list(worker.host_keys),
                "host_key_alias": worker.host_key_alias,
                "instance": worker.instance,
            }
            for worker in self.workers
        ]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Run:
        """Read run.json; fields a newer version added are left aside. Raises ValueError when it is no run."""
        try:
            known = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
            known["argv"] = tuple(str(word) for word in document["argv"])
            known["on_end"] = tuple(str(action) for action in document.get("on_end") or ())
            known["workers"] = tuple(
                _worker(
                    int(row["index"]),
                    row.get("hostname"),
                    row.get("internal_ip"),
                    row.get("external_ip"),
                    int(row.get("port") or 22),
                    row.get("user"),
                    tuple(row.get("host_keys") or ()),
                    row.get("host_key_alias"),
                    row.get("instance"),
                )
                for row in document["workers"]
            )
            for names, types in _OF_TYPES:
                for name in names:
                    if name in known and not isinstance(known[name], types):
                        raise TypeError(f"{name} is a {type(known[name]).__name__}")
            return cls(**known)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"not a run.json: {error!r}") from error
