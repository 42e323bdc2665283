"""Read exports of Cloud Logging: JSON, CSV or gcloud's YAML, often with the newest entry first."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from tui.errors import UsageError
from tui.logs.attribution.xla_dist_prefix import read_moment

MOST_LINES = 1024
"""Most lines of an entry; the lines of a longer one are read as plain lines."""

LONGEST_ENTRY_BYTES = 256 * 1024
"""Most bytes of an entry; the lines of a longer one are read as plain lines."""

MOST_OTHERS = 1024
"""Consecutive lines outside entries after which a log counts as no export."""

MOST_HELD_BYTES = 32 * 1024 * 1024
"""Most bytes of entries held to be reversed, where the export begins with the newest."""

_TEXTS = ("text_payload", "message", "msg", "log")
_HOSTS = ("pod_name", "resource_name", "node_id", "instance_name", "hostname", "instance_id")
"""Fields that name the machine of an entry, the clearest first."""

_TIMES = ("timestamp", "receive_timestamp")

_CSV_HEADER = re.compile(
    rb"(?=[^\n]{0,4000}(?:text_?[pP]ayload|(?<![\w.])message|[pP]ayload\.message))"
    rb"(?=[^\n]{0,4000}(?:timestamp|insertId|worker_id|pod_name|logName|log_name))"
    rb"[\w./\"-]{1,200}(?:,[\w./\"-]{1,200}){1,200}\r?$"
)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?")
_YAML_ENTRY = re.compile(rb"^(?:insertId|logName|textPayload|jsonPayload):", re.MULTILINE)
_RULE = b"---"
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class ExportEntry(NamedTuple):
    """A message and its time; number and address are None where the export names no worker."""

    number: int | None
    address: str | None
    moment: float | None
    """The date and time of the entry, in seconds as if UTC."""
    text: bytes
    offset: int = -1
    """Where its first line begins in the export, in bytes; -1 unknown."""


class _Format(Protocol):
    """Recognises and parses the lines of one entry."""

    def begins(self, line: bytes) -> bool:
        """Return whether a line outside entries begins one."""
        ...

    def ends(self, lines: Sequence[bytes]) -> bool:
        """Return whether the lines so far are a whole entry."""
        ...

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        """Return the fields of a whole entry, by lower-case names without their parents'."""
        ...


class _Json:
    """Indented objects, in an array or on their own."""

    def begins(self, line: bytes) -> bool:
        return line.strip() == b"{"

    def ends(self, lines: Sequence[bytes]) -> bool:
        first, last = lines[0].rstrip(), lines[-1].rstrip(b"\r ,")
        return last.endswith(b"}") and last[:-1] == first[:-1]

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        try:
            return _fields_of(json.loads(b"\n".join(lines).rstrip(b"\r ,"), strict=False))
        except (ValueError, RecursionError):
            return None


class _Yaml:
    """gcloud's default format: documents between rules of dashes, parsed by PyYAML where it is installed."""

    def begins(self, line: bytes) -> bool:
        return line.rstrip() == _RULE

    def ends(self, lines: Sequence[bytes]) -> bool:
        return len(lines) > 1 and lines[-1].rstrip() == _RULE

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        yaml = _import_yaml()
        if yaml is None:
            return None
        text = b"\n".join(line for line in lines if line.rstrip() != _RULE).decode("utf-8", "replace")
        try:
            # A base loader leaves scalars as text and builds no objects from tags.
            return _fields_of(yaml.load(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
        except (yaml.YAMLError, ValueError, RecursionError):
            return None


@cache
def _import_yaml() -> Any:
    """Import PyYAML, which only exports in YAML need; return None where it is not installed."""
    try:
        return import_module("yaml")
    except ImportError:
        return None


def check_yaml(name: str, head: bytes) -> None:
    """Raise UsageError where a log begins as an export in YAML and PyYAML is not installed."""
    if head.startswith(_RULE) and _YAML_ENTRY.search(head) and _import_yaml() is None:
        raise UsageError(
            f"cannot read {name}",
            why="it is a Cloud Logging export in YAML, and PyYAML is not installed",
            remedy="export it again with gcloud logging read --format=json, or install PyYAML",
        )


class _Csv:
    """Rows under their names."""

    def __init__(self, header: bytes) -> None:
        names = next(csv.reader([header.decode("ascii", "replace").strip()]), [])
        self._names = [_name_of(name.strip('"')) for name in names]
        self._quotes = 0

    def begins(self, line: bytes) -> bool:
        self._quotes = 0
        return b"," in line

    def ends(self, lines: Sequence[bytes]) -> bool:
        self._quotes += lines[-1].count(b'"')
        return self._quotes % 2 == 0

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        text = b"\n".join(lines).decode("utf-8", "replace").rstrip("\r")
        try:
            cells = next(csv.reader(text.splitlines(keepends=True)), [])
        except csv.Error:
            return None
        if len(cells) != len(self._names):
            return None
        fields: dict[str, str] = {}
        for name, cell in zip(self._names, cells, strict=True):
            if cell:
                fields.setdefault(name, cell)
        return fields


class ExportReader:
    """Assembles the lines of an export into entries, in the order of the export."""

    def __init__(self, first: bytes) -> None:
        self._header: bytes | None = None
        self._format: _Format = _Json()
        if _CSV_HEADER.match(first):
            self._header, self._format = first.rstrip(), _Csv(first)
        elif first.rstrip() == _RULE:
            self._format = _Yaml()
        self._part = b""
        self._offset = -1
        self._lines: list[bytes] = []
        self._size = 0
        self._others = 0
        self.started = 0
        """Entries begun so far, real ones or not; the last line added belongs to the newest."""

    @staticmethod
    def is_export_start(line: bytes) -> bool:
        """Return whether a log whose first line this is may be an export."""
        return line.rstrip() in (b"[", b"{", _RULE) or _CSV_HEADER.match(line) is not None

    @property
    def is_refuted(self) -> bool:
        """Return whether the log is no export after all: too many lines belong to no entry."""
        return self._others > MOST_OTHERS and not self._lines and not self._part

    def hold_part(self, part: bytes) -> None:
        """Hold the beginning of a line until `add_line` adds its rest."""
        self._part = (self._part + part)[-LONGEST_ENTRY_BYTES:]

    def add_line(self, line: bytes, offset: int = -1) -> Iterator[bytes | tuple[int, ExportEntry]]:
        """Add a line; yield the entry that it completes, with its index, or lines that belong to no entry.

        `offset` says where the line begins, in bytes, or where its rest begins if its beginning is held.
        """
        offset = offset - len(self._part) if offset >= 0 else offset
        line, self._part = self._part + line, b""
        if line.rstrip() == self._header:
            return
        if not self._lines and not self._format.begins(line):
            self._others += 1
            yield line
            return
        if not self._lines:
            self.started += 1
            self._offset = offset
        self._lines.append(line)
        self._size += len(line)
        if self._format.ends(self._lines):
            yield from self._finish_entry()
            if line.rstrip() == _RULE:
                # The rule that ends a document begins the next one.
                self.started += 1
                self._lines, self._size, self._offset = [line], len(line), offset
        elif len(self._lines) > MOST_LINES or self._size > LONGEST_ENTRY_BYTES:
            yield from self._give_up()

    def finish(self) -> Iterator[bytes | tuple[int, ExportEntry]]:
        """Yield what is held at the end of the log."""
        if self._part:
            yield from self.add_line(b"")
        if self._lines:
            yield from self._finish_entry()

    def _finish_entry(self) -> Iterator[bytes | tuple[int, ExportEntry]]:
        fields = self._format.fields(self._lines)
        text = None if fields is None else next((fields[name] for name in _TEXTS if name in fields), None)
        if fields is None or text is None:
            yield from self._give_up()
            return
        self._lines, self._size, self._others = [], 0, 0
        yield self.started - 1, _entry(fields, text)._replace(offset=self._offset)

    def _give_up(self) -> Iterator[bytes]:
        lines, self._lines, self._size = self._lines, [], 0
        self._others += len(lines)
        yield from lines


class Chronology:
    """Puts entries in the order in which they were written: most exports begin with the newest."""

    def __init__(self) -> None:
        self._newest: float | None = None
        self._is_backwards: bool | None = None
        self._held: list[tuple[int, ExportEntry]] = []
        self._size = 0

    def add_entry(self, place: int, entry: ExportEntry) -> list[tuple[int, ExportEntry]]:
        """Add an entry and return those that no older entry can precede."""
        moment, newest = entry.moment, self._newest
        if moment is not None:
            if self._is_backwards is None and newest is not None and moment != newest:
                self._is_backwards = moment < newest
            self._newest = moment
        self._held.append((place, entry))
        self._size += len(entry.text)
        return self.finish() if self._is_backwards is False or self._size > MOST_HELD_BYTES else []

    def finish(self) -> list[tuple[int, ExportEntry]]:
        """Return all entries that are held, the oldest first."""
        entries, self._held, self._size = self._held, [], 0
        return entries[::-1] if self._is_backwards else entries


def _entry(fields: Mapping[str, str], text: str) -> ExportEntry:
    number = fields.get("worker_id", "")
    return ExportEntry(
        int(number) if number.isascii() and number.isdigit() and len(number) < 6 else None,
        next((fields[name][:200] for name in _HOSTS if name in fields), None),
        next((moment for moment in (_moment(fields.get(name, "")) for name in _TIMES) if moment is not None), None),
        text.encode("utf-8", "surrogatepass"),
    )


def _moment(text: str) -> float | None:
    match = _MOMENT.match(text)
    if match is None:
        return None
    seconds = read_moment(f"{match[1]} {match[2]}".encode())
    return None if seconds is None else seconds + float(match[3] or 0)


def _fields_of(document: Any) -> dict[str, str]:
    """Return the fields of an entry by their plain names; a payload whose text has no digit becomes the text itself.

    Raises ValueError for a payload that contains itself, or repeats others until it is longer than any entry.
    """
    fields: dict[str, str] = {}
    _add_fields(document, fields, set())
    payload = document.get("jsonPayload") if isinstance(document, dict) else None
    text = next((fields[name] for name in _TEXTS if name in fields), "")
    if isinstance(payload, dict) and not any(map(str.isdigit, text)):
        fields["text_payload"] = _encode(payload)
    return fields


def _encode(payload: Mapping[str, Any]) -> str:
    """Return a payload as JSON. Raises ValueError for a huge one: YAML aliases can repeat a part a billion times."""
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder().iterencode(payload):
        size += len(piece)
        if size > LONGEST_ENTRY_BYTES:
            raise ValueError(f"a payload of more than {LONGEST_ENTRY_BYTES} characters")
        pieces.append(piece)
    return "".join(pieces)


def _add_fields(document: Any, fields: dict[str, str], visited: set[int], depth: int = 4) -> None:
    """Add the fields of an object, then those of objects in it; an object that is repeated counts once."""
    if not isinstance(document, dict) or id(document) in visited or depth < 0:
        return
    visited.add(id(document))
    inner: list[tuple[str, Any]] = []
    for name, value in document.items():
        if isinstance(value, (str, int, float)):
            fields.setdefault(_name_of(str(name)), str(value))
        else:
            inner.append((str(name), value))
    # The payload comes last: a program's own fields do not name its machine.
    for _, value in sorted(inner, key=lambda item: item[0] == "jsonPayload"):
        _add_fields(value, fields, visited, depth - 1)


def _name_of(name: str) -> str:
    """Return the plain name of a field: `worker_id` of `labels.worker_id`, `text_payload` of `textPayload`."""
    return _CAPITAL.sub("_", re.split(r"[./]", name)[-1]).lower()
