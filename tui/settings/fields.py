"""The settings: frozen values, each declared with its parser, its default and its meaning."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tui.errors import near_matches
from tui.pod.worker import MOST_PORT, RUN_ROOT
from tui.text.numbers import is_integer, is_number, parse_integer

ENVIRONMENT_PREFIX = "TPU_TUI_"
EVERY_ZONE = "-"
"""As a zone it means every zone, like the API's `locations/-`."""
THRESHOLDS = {
    "straggler": "lines that a core may be behind the median core",
    "slow_pace": "share of the median core's rate below which a core is slow",
    "slow_samples": "samples in a row that must be that slow",
    "silent": "seconds without a line after which a core is silent",
    "disk_free_gib": "GiB of free disk space on a worker below which there is a warning",
    "disk_full_gib": "GiB of free disk space on a worker below which the check fails",
    "memory_free_share": "share of free memory on a worker below which there is a warning",
    "load_per_cpu": "load per CPU above which there is a warning",
    "clock_skew_seconds": "seconds between clocks above which there is a warning",
    "clock_fail_seconds": "seconds between clocks above which the check fails",
    "connect_timeout": "seconds to connect to a worker",
    "login_timeout": "seconds to log in to a worker",
    "keepalive": "seconds between two keep-alive messages",
    "keepalive_count": "keep-alive messages that may stay unanswered",
    "handshakes": "logins at the same time",
    "sessions": "sessions at the same time on one connection",
    "drain_seconds": "seconds to wait after a first failure for earlier ones of other workers",
    "lost_after_seconds": "seconds without any worker after which a run is given up as lost",
    "gone_after_seconds": "seconds after which a single unreachable worker is given up",
    "newer_acts_seconds": "seconds for a newer keeper on another machine to act on a failure",
    "answer_seconds": "seconds for a worker's answer after a launch's lease",
    "restart_pause_seconds": "seconds before the first restart; doubled for each further one",
    "ask_after_seconds": "seconds without a worker after which the API is asked for the reason",
    "stalled_after_seconds": "seconds without output after which a worker is reported",
    "behind_after_seconds": "seconds behind the others after which a core is reported",
}
"""The names of a profile's `[thresholds]` with their meanings; defaults are where each is used."""
_ENDPOINTS = ("tpu", "compute", "storage", "iap", "oslogin")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")
_MOST_THRESHOLD = 1e300
_SHOWN = 20
"""Most characters of an invalid number in an error message."""


@dataclass(frozen=True)
class Place:
    """The directories that relative paths and `~` in a value refer to."""

    directory: Path
    user_home: Path

    def path(self, text: str) -> Path:
        """Return the absolute path for `text`."""
        if text == "~" or text.startswith("~/"):
            return self.user_home / text[2:]
        return self.directory / Path(text).expanduser()


Read = Callable[[Any, Place], Any]
"""Parses a value from TOML, a flag or a variable. Raises ValueError, which describes a valid value."""


@dataclass(frozen=True)
class SettingField:
    """One setting: its profile key (also the variable, in capitals), parser, default and meaning."""

    name: str
    read: Read
    default: Any
    meaning: str
    flag: str | None = None
    """The name of its command-line flag, if it has one."""
    in_environment: bool = True
    is_secret: bool = False
    """Whether its value is never shown."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it: one for its name, and one for its flag's if that differs."""
        if not self.in_environment:
            return ()
        names = dict.fromkeys((self.name, self.flag or self.name))
        return tuple(ENVIRONMENT_PREFIX + name.upper() for name in names)

    def remedy(self, value: Any) -> str:
        """Return what to do about a value that cannot be read."""
        if self.read in _TEXTS and isinstance(value, (int, float)):
            return f'put it in quotes: {self.name} = "{value}"'
        return f"correct it; {self.name} holds: {self.meaning}"


def _text(value: Any, _place: Place) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("should be text")
    return value.strip()


def _path(value: Any, place: Place) -> Path:
    if not isinstance(value, (str, Path)) or not str(value):
        raise ValueError("should be a path")
    return place.path(str(value))


def _paths(value: Any, place: Place) -> tuple[Path, ...]:
    if isinstance(value, str):
        value = value.split(os.pathsep)
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return tuple(_path(item, place) for item in items)


def _zones(value: Any, place: Place) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name for name in value.split(",") if name.strip()]
    if not isinstance(value, (list, tuple)):
        raise ValueError("should be a list of zones")
    names = [name for zone in value for name in (zone.split(",") if isinstance(zone, str) else [zone])]
    zones = tuple(dict.fromkeys(_text(zone, place) for zone in names))
    if any("/" in zone for zone in zones):
        raise ValueError("should be bare names of zones, e.g. us-central1-a")
    return () if EVERY_ZONE in zones else zones


_TEXTS = (_text, _path, _paths, _zones)
"""The parsers whose values are texts in TOML."""


def _port(value: Any, _place: Place) -> int:
    port = parse_integer(value) if isinstance(value, str) else value
    if not is_integer(port, 1, MOST_PORT):
        raise ValueError(f"should be a port, 1 to {MOST_PORT}")
    return port


def _switch(value: Any, _place: Place) -> bool:
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    if not isinstance(value, bool):
        raise ValueError("should be true or false")
    return value


def _one_of(*choices: str) -> Read:
    def read(value: Any, _place: Place) -> str:
        if value not in choices:
            raise ValueError(f"should be one of {', '.join(choices)}")
        return str(value)

    return read


def _table(value: Any, _place: Place) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("should be a table")
    return value


def _thresholds(value: Any, place: Place) -> Mapping[str, float]:
    table = _table(value, place)
    for name, number in table.items():
        if name not in THRESHOLDS:
            near = near_matches(name, THRESHOLDS, 1)
            raise ValueError(f"has no {name}: " + (f"did you mean {near[0]}?" if near else ", ".join(THRESHOLDS)))
        if not isinstance(number, (int, float)) or isinstance(number, bool):
            raise ValueError(f"should contain numbers only, but {name} is not one")
        if not is_number(number, 0, _MOST_THRESHOLD):
            raise ValueError(f"should contain numbers from 0 up, but {name} is {str(number)[:_SHOWN]}")
    return {name: float(number) for name, number in table.items()}


def _endpoints(value: Any, place: Place) -> Mapping[str, str]:
    table = _table(value, place)
    for name, address in table.items():
        if name not in _ENDPOINTS or not isinstance(address, str) or not address:
            raise ValueError(f"should contain addresses for {', '.join(_ENDPOINTS)} only")
    return table


def _setting(default: Any, read: Read, meaning: str, **more: Any) -> Any:
    made = SettingField("", read, default, meaning, **more)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"setting": made})
    return field(default=default, repr=not made.is_secret, metadata={"setting": made})


@dataclass(frozen=True)
class Setting:
    """One value and its origin, as `config show` prints them."""

    name: str
    value: Any
    origin: str
    """`flag`, `environment TPU_TUI_…`, `profile NAME (path)`, `gcloud configuration NAME` or `default`."""


@dataclass(frozen=True)
class Settings:
    """All settings of one invocation."""

    home: Path
    """Directory of runs, profiles and accepted host keys: `$TPU_TUI_HOME`, else the user data directory."""
    profile: str | None = None
    project: str | None = _setting(None, _text, "Google Cloud project", flag="project")
    zones: tuple[str, ...] = _setting((), _zones, "zones to look in; none or -: every zone", flag="zone")
    hosts: Path | None = _setting(  # noqa: RUF009
        None, _path, "a file of SSH hosts to use instead of the API", flag="hosts"
    )
    user: str | None = _setting(None, _text, "user to log in as", flag="user")
    identity: Path | None = _setting(None, _path, "private SSH key file", flag="identity")  # noqa: RUF009
    port: int | None = _setting(None, _port, "SSH port, if not the worker's default")
    known_hosts: tuple[Path, ...] = _setting(
        (), _paths, "files of trusted host keys in OpenSSH's format", flag="known_hosts"
    )
    host_keys: str = _setting(
        "strict", _one_of("strict", "accept-new"), "what to do with an unknown host key", flag="host_keys"
    )
    """`strict` refuses an unknown host key, `accept-new` saves it."""
    route: str = _setting(
        "external", _one_of("external", "internal", "iap"), "how to reach workers: external, internal or iap"
    )
    jump: str | None = _setting(None, _text, "jump host, [user@]host[:port]")
    run_root: str = _setting(RUN_ROOT, _text, "directory of runs on a worker")
    runtime: str = _setting(
        "pjrt", _one_of("pjrt", "cpu", "xrt", "none"), "runtime that a job's environment is prepared for"
    )
    dialects: Mapping[str, Any] = _setting({}, _table, "your own log formats", in_environment=False)
    thresholds: Mapping[str, float] = _setting({}, _thresholds, "timeouts and limits", in_environment=False)
    endpoints: Mapping[str, str] = _setting({}, _endpoints, "other addresses of the APIs", in_environment=False)
    """`tpu` (gRPC host:port), `compute`, `oslogin`, `storage` (URLs). Set by a local pod."""
    token: str | None = _setting(None, _text, "token of a local pod", in_environment=False, is_secret=True)
    """The bearer token for a local pod's APIs; it is never sent beyond this machine."""
    read_only: bool = _setting(False, _switch, "refuse anything that changes or costs something", flag="read_only")
    account: str | None = None
    """The account that gcloud is logged in with, for messages, and for OS Login if the credentials name none."""
    origins: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def runs_home(self) -> Path:
        """The directory of run directories."""
        return self.home / "runs"

    @property
    def own_known_hosts(self) -> Path:
        """The file of host keys accepted here."""
        return self.home / "known_hosts"


FIELDS = tuple(
    replace(part.metadata["setting"], name=part.name) for part in fields(Settings) if "setting" in part.metadata
)
"""Every setting that a profile may hold."""

LOCAL_PROFILE = "local"
"""The profile that a local pod writes while it runs."""
LOCAL_TABLE = "local"
"""The table that a local pod adds to its profile: its `pid` and other facts about the pod."""
