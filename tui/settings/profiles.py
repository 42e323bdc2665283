"""Profiles: settings kept under a name, one TOML file each."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.errors import UsageError, near_matches
from tui.pod.run import LOCAL_PROFILE
from tui.settings.fields import FIELDS, LOCAL_TABLE, Place
from tui.settings.home import check_trusted, make_private
from tui.text.bounded_json import check_document
from tui.text.printable import one_line

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_WHY_SHOWN = 300
"""Characters of a wrong value that the error repeats."""
_LINE = re.compile(r"at line (\d+)")
_KEYS = (*(field.name for field in FIELDS), LOCAL_TABLE)


@dataclass(frozen=True)
class Profile:
    """A profile as read: values by setting, and the table of the local pod it belongs to."""

    name: str
    path: Path
    values: Mapping[str, Any]
    local: Mapping[str, Any]

    @property
    def origin(self) -> str:
        """How `config show` names it."""
        return f"profile {self.name} ({self.path})"

    @property
    def belongs_to_live_pod(self) -> bool:
        """Whether the local pod that wrote it still runs."""
        pid = self.local.get("pid")
        return isinstance(pid, int) and pid > 0 and _is_alive(pid)


def profile_path(home: Path, name: str) -> Path:
    """The file of a profile. Raises UsageError for a name that is no file name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"no name for a profile: {name!r}", remedy="use letters, digits, dots, - and _")
    return home / "profiles" / f"{name}.toml"


def read_profile(home: Path, name: str, user_home: Path) -> Profile:
    """Read a profile. Raises UsageError naming file and line, or the profiles there are when this one is not."""
    path = profile_path(home, name)
    try:
        with path.open("rb") as file:
            check_trusted(path, os.fstat(file.fileno()), f"profile {name}", home)
            text = file.read().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"no such profile: {name}", remedy=_profiles_there_are(home, name)) from None
    except UnicodeDecodeError as error:
        why = f"{path} is not UTF-8 text (byte {error.start})"
        raise UsageError(f"profile {name} cannot be read", why=why) from None
    except OSError as error:
        raise UsageError(f"profile {name} cannot be read", why=f"{path}: {error.strerror}") from None
    document = _parsed(name, path, text)
    values = {key: value for key, value in document.items() if key != LOCAL_TABLE}
    local = document.get(LOCAL_TABLE, {})
    return Profile(name, path, _checked(values, path, text, user_home), local if isinstance(local, dict) else {})


def _parsed(name: str, path: Path, text: str) -> dict[str, Any]:
    """A profile's document. The parser is loaded by whoever has a profile, which a hosts file needs none of."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        document = tomllib.loads(text)
        check_document(document)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, or lists 1,000 deep, among them
        found = _LINE.search(str(error))
        where = f"{path}, line {found[1]}" if found else str(path)
        why = f"{where}: {one_line(str(error))[:_WHY_SHOWN]}"
        raise UsageError(f"profile {name} is no TOML", why=why, remedy=f"correct {path}") from None
    return document


def save_profile(home: Path, name: str, values: Mapping[str, Any]) -> Path:
    """Write a profile, readable by its owner only, whole or not at all; None values are left out.

    Raises UsageError for a key or value that could not be read back, or a place that cannot be written.
    """
    import tomli_w

    path = profile_path(home, name)
    document = {key: _plain(value) for key, value in values.items() if value is not None}
    settings = {key: value for key, value in document.items() if key != LOCAL_TABLE}
    _checked(settings, path, "", Path.home())
    try:
        make_private(path.parent)
        _replace(path, tomli_w.dumps(document).encode())
    except OSError as error:
        raise UsageError(f"profile {name} cannot be saved", why=str(error)) from None
    return path


def delete_profile(home: Path, name: str) -> None:
    """Remove a profile; one that is not there is no error."""
    profile_path(home, name).unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def _checked(values: Mapping[str, Any], path: Path, text: str, user_home: Path) -> dict[str, Any]:
    place = Place(path.parent, user_home)
    fields = {field.name: field for field in FIELDS}
    checked = {}
    for key, value in values.items():
        where = f"{path}{_line_of(key, text)}"
        if key not in fields:
            near = near_matches(key, _KEYS, 1, cutoff=0.5)
            remedy = f"did you mean {near[0]}?" if near else f"a profile holds {', '.join(fields)}"
            raise UsageError(f"no such setting: {key}", why=where, remedy=remedy)
        try:
            checked[key] = fields[key].read(value, place)
        except ValueError as error:
            raise UsageError(f"{key} {error}", why=f"{where} says {repr(value)[:_WHY_SHOWN]}") from None
    return checked


def _line_of(key: str, text: str) -> str:
    """`, line N` of the first line that sets `key`; empty where it is not known."""
    sets_it = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    for number, line in enumerate(text.splitlines(), 1):
        if sets_it.match(line):
            return f", line {number}"
    return ""


def _profiles_there_are(home: Path, name: str) -> str:
    if name == LOCAL_PROFILE:
        return "tpu-tui local up starts a local pod and writes it"
    names = sorted(path.stem for path in (home / "profiles").glob("*.toml"))
    near = near_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are: {', '.join(names)}" if names else f"write {profile_path(home, name)}"


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return value


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
