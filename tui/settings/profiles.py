"""Profiles: settings saved under a name, one TOML file each."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.errors import UsageError, near_matches
from tui.procs.liveness import pid_exists
from tui.settings.fields import FIELDS, LOCAL_PROFILE, LOCAL_TABLE, Place
from tui.settings.home import check_trusted, make_private, read_user_file, replace_file
from tui.text.bounded_json import check_document
from tui.text.printable import one_line

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_WHY_SHOWN = 300
"""Most characters of an invalid value in an error message."""
_LINE = re.compile(r"at line (\d+)")
_KEYS = (*(field.name for field in FIELDS), LOCAL_TABLE)


@dataclass(frozen=True)
class Profile:
    """A profile: its values by setting, and the table that a local pod added to it."""

    name: str
    path: Path
    values: Mapping[str, Any]
    local: Mapping[str, Any]

    @property
    def origin(self) -> str:
        """The profile's name in `config show`."""
        return f"profile {self.name} ({self.path})"

    @property
    def belongs_to_live_pod(self) -> bool:
        """Return whether the local pod that wrote it is still running."""
        pid = self.local.get("pid")
        return isinstance(pid, int) and pid > 0 and pid_exists(pid)


def profile_path(home: Path, name: str) -> Path:
    """Return the file of a profile. Raises UsageError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid profile name", remedy="use letters, digits, dots, - and _")
    return home / "profiles" / f"{name}.toml"


def read_profile(home: Path, name: str, user_home: Path) -> Profile:
    """Read a profile. Raises UsageError with the file and line, or with similar names for a missing profile."""
    path = profile_path(home, name)
    try:
        content = read_user_file(path, lambda status: check_trusted(path, status, f"profile {name}", home))
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"no such profile: {name}", remedy=_missing_profile_remedy(home, name)) from None
    except UnicodeDecodeError as error:
        why = f"{path} is not UTF-8 text (byte {error.start})"
        raise UsageError(f"profile {name} cannot be read", why=why) from None
    except OSError as error:
        raise UsageError(f"profile {name} cannot be read", why=f"{path}: {error.strerror}") from None
    document = _parse_toml(name, path, text)
    values = {key: value for key, value in document.items() if key != LOCAL_TABLE}
    local = document.get(LOCAL_TABLE, {})
    return Profile(name, path, _check_values(values, path, text, user_home), local if isinstance(local, dict) else {})


def _parse_toml(name: str, path: Path, text: str) -> dict[str, Any]:
    """Parse a profile's TOML; the parser is loaded only where there is a profile."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        document = tomllib.loads(text)
        check_document(document)
    except (ValueError, RecursionError) as error:  # e.g. a number of 5,000 digits, or lists nested 1,000 deep
        match = _LINE.search(str(error))
        location = f"{path}, line {match[1]}" if match else str(path)
        why = f"{location}: {one_line(str(error))[:_WHY_SHOWN]}"
        raise UsageError(f"profile {name} is not valid TOML", why=why, remedy=f"correct {path}") from None
    return document


def save_profile(home: Path, name: str, values: Mapping[str, Any]) -> Path:
    """Write a profile atomically, readable by its owner only; None values are omitted.

    Raises UsageError for a key or value that could not be read back, or a file that cannot be written.
    """
    import tomli_w

    path = profile_path(home, name)
    document = {key: _plain(value) for key, value in values.items() if value is not None}
    settings = {key: value for key, value in document.items() if key != LOCAL_TABLE}
    _check_values(settings, path, "", Path.home())
    try:
        make_private(path.parent)
        with replace_file(path, durable=True) as file:
            file.write(tomli_w.dumps(document).encode())
    except OSError as error:
        raise UsageError(f"profile {name} cannot be saved", why=str(error)) from None
    return path


def _check_values(values: Mapping[str, Any], path: Path, text: str, user_home: Path) -> dict[str, Any]:
    place = Place(path.parent, user_home)
    fields = {field.name: field for field in FIELDS}
    checked = {}
    for key, value in values.items():
        location = f"{path}{_line_of(key, text)}"
        if key not in fields:
            near = near_matches(key, _KEYS, 1, cutoff=0.5)
            remedy = f"did you mean {near[0]}?" if near else f"settings are {', '.join(fields)}"
            raise UsageError(f"no such setting: {key}", why=location, remedy=remedy)
        try:
            checked[key] = fields[key].read(value, place)
        except ValueError as error:
            why = f"{location}: {repr(value)[:_WHY_SHOWN]}"
            raise UsageError(f"{key} {error}", why=why, remedy=fields[key].remedy(value)) from None
    return checked


def _line_of(key: str, text: str) -> str:
    """Return `, line N` for the first line that sets `key`; empty if no line is found."""
    sets_it = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    for number, line in enumerate(text.splitlines(), 1):
        if sets_it.match(line):
            return f", line {number}"
    return ""


def _missing_profile_remedy(home: Path, name: str) -> str:
    if name == LOCAL_PROFILE:
        return "start a local pod, which writes it: tpu-tui local up"
    names = sorted(path.stem for path in (home / "profiles").glob("*.toml"))
    near = near_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"existing profiles: {', '.join(names)}" if names else f"create {profile_path(home, name)}"


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return value
