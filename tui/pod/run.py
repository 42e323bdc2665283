"""A run: its id, what was launched on which workers, and the states it goes through."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from tui.pod.accelerator import parse
from tui.pod.worker import MOST_PORT, MOST_WORKERS, SSH_PORT, Worker
from tui.text.numbers import is_integer, is_number

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
_SECRET_WORDS = frozenset(
    ("TOKEN", "KEY", "SECRET", "PASS", "PASSWD", "PASSWORD", "PASSPHRASE", "PWD", "AUTH", "DSN", "CREDENTIAL")
) | {"CREDENTIALS"}
_WORKING_DIRECTORY = "PWD"
"""The variable of that very name holds the shell's directory."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a variable's name: names are split at `_`, digits and changes of case, so that `HFToken` is two."""
_USER_IN_URL = re.compile(r"(?<=://)[^\s/?#\"'<>]+(?=@)")
MOST_RESTARTS = 1_000_000
_MOST_SECONDS = 1e9
_MOST_CORES = 1_000_000
_TEXTS = ("id", "slice", "created", "run_root", "runtime", "on_failure")
_OPTIONAL_TEXTS = (
    *("name", "zone", "project", "profile", "accelerator_type", "slice_created"),
    *("workdir", "conda_env", "venv", "code_hash"),
)
_WORKERS_TEXTS = ("hostname", "internal_ip", "external_ip", "user", "host_key_alias", "instance")
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
    """Whether a variable's name says that its value must not be written anywhere: one of its words does."""
    return name != _WORKING_DIRECTORY and any(word.upper() in _SECRET_WORDS for word in _WORD.findall(name))


def mask_urls(text: str) -> str:
    """Return a text in which the user information of URLs, what stands before the `@`, is masked."""
    return _USER_IN_URL.sub(MASK, text) if "@" in text else text


def mask_secrets(env: Mapping[str, str], by_name: Collection[str] = ()) -> dict[str, str]:
    """Return the variables with secret values masked, fit for run.json, reports and logs.

    Secret is what a name says to be, and what was passed `by_name` only; of other values the users in URLs.
    """
    return {name: MASK if name in by_name or is_secret(name) else mask_urls(value) for name, value in env.items()}


@dataclass(frozen=True)
class Run:
    """What run.json holds: a run's identity and everything needed to find, show and explain it.

    On record neither `env` nor `argv` holds secret values. `workers` are those of the launch, with the addresses they
    had then.
    """

    id: str
    slice: str
    argv: tuple[str, ...]
    workers: tuple[Worker, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    env_by_name: tuple[str, ...] = ()
    """The variables of which only the name was given (`--env NAME`): their values are secret whatever the name."""
    name: str | None = None
    zone: str | None = None
    project: str | None = None
    profile: str | None = None
    accelerator_type: str | None = None
    spot: bool | None = None
    """Whether the slice could be taken away at any time; None where its source does not tell."""
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
    """What the launching machine does when it has ended (`tui.runs.launch.on_end_actions`)."""
    created: str = ""
    """RFC 3339, when the launch was asked for."""
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def is_rehearsal(self) -> bool:
        """Whether it is the local pod's rehearsal job."""
        return rehearses(self.argv)

    @property
    def cores_expected(self) -> int | None:
        """XLA devices of all its workers: as its slice counted them, else by the accelerator type; None unknown."""
        if self.cores_per_worker:
            return self.cores_per_worker * len(self.workers)
        accelerator = parse(self.accelerator_type or "")
        return accelerator.devices if accelerator is not None and accelerator.workers == len(self.workers) else None

    def without_secrets(self) -> Run:
        """Return the run as it is on record: what is launched is not read from there."""
        argv = tuple(mask_urls(word) for word in self.argv)
        return replace(self, argv=argv, env=mask_secrets(self.env, self.env_by_name))

    def to_json(self) -> dict[str, Any]:
        """The document written to run.json, here and on every worker."""
        document: dict[str, Any] = dict(self.__dict__)
        document["argv"] = [mask_urls(word) for word in self.argv]
        document["on_end"] = list(self.on_end)
        document["env"] = mask_secrets(self.env, self.env_by_name)
        document["env_by_name"] = list(self.env_by_name)
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
        if not isinstance(document, Mapping):
            raise ValueError("not a run.json: it holds no names")
        missing = [name for name in ("id", "slice", "argv", "workers") if name not in document]
        if missing:
            raise ValueError(f"not a run.json: {missing[0]} is missing")
        known = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
        known["on_end"] = known.get("on_end") or ()
        for name, value in known.items():
            known[name] = _read_field(name, value)
        return cls(**known)


def _read_field(name: str, value: Any) -> Any:
    """Return a field of run.json as a run holds it. Raises ValueError that names the field for any other type."""
    if name == "workers":
        return _read_workers(value)
    if name in ("argv", "on_end", "env_by_name"):
        if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
            raise _wrong(name, "a list of texts")
        return tuple(value)
    reads, wanted = _FIELDS[name]
    if not reads(value):
        raise _wrong(name, wanted)
    return value


def _read_workers(rows: Any) -> tuple[Worker, ...]:
    """Return the workers of a record. Raises ValueError for what can be none: a bad index, port, name or address."""
    if not isinstance(rows, (list, tuple)) or len(rows) > MOST_WORKERS:
        raise _wrong("workers", "a list")
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
    for name in _WORKERS_TEXTS:
        if not _is_optional_text(row.get(name)):
            raise _wrong(f"{name} of worker {index}", "a text")
    hostname, internal, external, user, alias, instance = (row.get(name) for name in _WORKERS_TEXTS)
    return _worker(index, hostname, internal, external, port, user, tuple(keys), alias, instance)


def _wrong(name: str, wanted: str) -> ValueError:
    return ValueError(f"not a run.json: {name} should be {wanted}")


def _is_optional_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_table_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(_TEXTS, (lambda value: isinstance(value, str), "a text")),
    **dict.fromkeys(_OPTIONAL_TEXTS, (_is_optional_text, "a text or null")),
    **dict.fromkeys(("grace", "lease"), (lambda value: is_number(value, 0, _MOST_SECONDS), "a number of seconds")),
    **dict.fromkeys(("env", "versions"), (_is_table_of_texts, "a table of texts")),
    "restarts": (lambda value: is_integer(value, 0, MOST_RESTARTS), f"an integer from 0 to {MOST_RESTARTS}"),
    "cores_per_worker": (lambda value: value is None or is_integer(value, 0, _MOST_CORES), "an integer or null"),
    "spot": (lambda value: value is None or isinstance(value, bool), "true, false or null"),
    "schema": (lambda value: is_integer(value, 0), "an integer"),
}
"""What fields of run.json have to be: a damaged record is reported as that, where it is read."""
