"""Every setting: its meaning, its form and its default."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.errors import near_matches
from tui.pod.worker import MOST_PORT
from tui.settings.thresholds import THRESHOLDS
from tui.text.numbers import is_integer, is_number, parse_integer

ENVIRONMENT_PREFIX = "TPU_TUI_"
EVERY_ZONE = "-"
"""Given as a zone it means every zone, as in the API's own `locations/-`."""
_ENDPOINTS = ("tpu", "compute", "storage", "iap")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")
_MOST_THRESHOLD = 1e300
_SHOWN = 20
"""Characters of a wrong number that the error repeats."""


@dataclass(frozen=True)
class Place:
    """What relative paths and `~` in a value mean: where it was written, and whose home it is."""

    directory: Path
    user_home: Path

    def path(self, text: str) -> Path:
        """The absolute path that `text` means here."""
        if text == "~" or text.startswith("~/"):
            return self.user_home / text[2:]
        return self.directory / Path(text).expanduser()


Read = Callable[[Any, Place], Any]
"""Reads a value as written in TOML, a flag or a variable; raises ValueError saying what it should be."""


@dataclass(frozen=True)
class SettingField:
    """One setting: its profile key (the variable is the same in capitals), reader, default and meaning."""

    name: str
    read: Read
    default: Any
    meaning: str
    flag: str | None = None
    """The flag's name where it has one."""
    in_environment: bool = True
    is_secret: bool = False
    """Whether its value is never shown."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it: by its own name, and by its flag's where that is another."""
        if not self.in_environment:
            return ()
        names = dict.fromkeys((self.name, self.flag or self.name))
        return tuple(ENVIRONMENT_PREFIX + name.upper() for name in names)


def _text(value: Any, _place: Place) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("should be a text")
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
        value = [word for word in value.split(",") if word.strip()]
    if not isinstance(value, (list, tuple)):
        raise ValueError("should be a list of zones")
    words = [word for zone in value for word in (zone.split(",") if isinstance(zone, str) else [zone])]
    zones = tuple(dict.fromkeys(_text(zone, place) for zone in words))
    if any("/" in zone for zone in zones):
        raise ValueError("should be bare names of zones, as us-central1-a")
    return () if EVERY_ZONE in zones else zones


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
            raise ValueError(f"should hold numbers only, and {name} is none")
        if not is_number(number, 0, _MOST_THRESHOLD):
            raise ValueError(f"should hold numbers from 0 up, and {name} is {str(number)[:_SHOWN]}")
    return {name: float(number) for name, number in table.items()}


def _endpoints(value: Any, place: Place) -> Mapping[str, str]:
    table = _table(value, place)
    for name, address in table.items():
        if name not in _ENDPOINTS or not isinstance(address, str) or not address:
            raise ValueError(f"should hold {', '.join(_ENDPOINTS)}, each an address")
    return table


FIELDS = (
    SettingField("project", _text, None, "Google Cloud project", flag="project"),
    SettingField("zones", _zones, (), "zones to look in; none, or -: every zone", flag="zone"),
    SettingField("hosts", _path, None, "a file of SSH machines instead of the API", flag="hosts"),
    SettingField("user", _text, None, "user to log in as", flag="user"),
    SettingField("identity", _path, None, "private SSH key", flag="identity"),
    SettingField("port", _port, None, "SSH port, where it is not the worker's own"),
    SettingField("known_hosts", _paths, (), "files of host keys to trust, as OpenSSH keeps them", flag="known_hosts"),
    SettingField(
        "host_keys", _one_of("strict", "accept-new"), "strict", "what to do with a new host key", flag="host_keys"
    ),
    SettingField("route", _one_of("external", "internal", "iap"), "external", "how workers are reached"),
    SettingField("jump", _text, None, "jump host, [user@]host[:port]"),
    SettingField("run_root", _text, "~/.tpu-tui", "where runs are kept on a worker"),
    SettingField(
        "runtime", _one_of("pjrt", "cpu", "xrt", "none"), "pjrt", "what a job's environment is prepared for"
    ),
    SettingField("dialects", _table, {}, "log formats of your own", in_environment=False),
    SettingField(
        "thresholds", _thresholds, {}, "how patient we are, and what counts as too little", in_environment=False
    ),
    SettingField("endpoints", _endpoints, {}, "other places of the APIs", in_environment=False),
    SettingField("token", _text, None, "what a local pod knows its owner by", in_environment=False, is_secret=True),
    SettingField("read_only", _switch, False, "refuse whatever changes or costs something", flag="read_only"),
)
"""Every setting that a profile may hold."""

LOCAL_TABLE = "local"
"""A profile's table that says which live local pod it belongs to: `pid`, and what else the pod wants to remember."""
