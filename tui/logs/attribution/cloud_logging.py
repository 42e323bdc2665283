"""Exports of Cloud Logging: entries over many lines (JSON, gcloud's YAML) or rows of CSV, often the newest first."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tui.logs.attribution.xla_dist_prefix import read_moment

MOST_LINES = 1024
"""Lines that an entry can have; more are none."""

LONGEST_ENTRY = 256 * 1024
"""Bytes of an entry that is put together."""

MOST_OTHERS = 1024
"""Lines in a row that belong to no entry, after which a log is no export."""

MOST_HELD = 32 * 1024 * 1024
"""Bytes that entries say which are held until the oldest has come, where the newest comes first."""

_TEXTS = ("text_payload", "message", "msg", "log")
_HOSTS = ("pod_name", "resource_name", "node_id", "instance_name", "hostname", "instance_id")
"""What tells whose an entry is, the clearest first; a node's own is told beside the number of its worker."""

_TIMES = ("timestamp", "receive_timestamp")
_FIELDS = {*_TEXTS, *_HOSTS, *_TIMES, "worker_id"}

_CSV_HEADER = re.compile(
    rb"(?=[^\n]{0,4000}(?:text_?[pP]ayload|(?<![\w.])message|[pP]ayload\.message))"
    rb"(?=[^\n]{0,4000}(?:timestamp|insertId|worker_id|pod_name|logName|log_name))"
    rb"[\w./\"-]{1,200}(?:,[\w./\"-]{1,200}){1,200}\r?$"
)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?")
_YAML = re.compile(r"( *)(?:- )?([\w./\"'-]{1,200}):(?: (.*)|)$")
_YAML_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?$")
_RULE = b"---"
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Entry:
    """What somebody said at some time; number and address are None where the export does not name them."""

    number: int | None
    address: str | None
    moment: float | None
    """Its date and time, in seconds as if it were UTC."""
    said: bytes
    offset: int = -1
    """Where its first line begins in the export, in bytes; -1 unknown."""


class _Format(Protocol):
    """Puts the lines of one entry together."""

    def begins(self, line: bytes) -> bool:
        """Whether an entry begins with a line, when none is open."""
        ...

    def ends(self, lines: Sequence[bytes]) -> bool:
        """Whether the lines so far are a whole entry."""
        ...

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        """What a whole entry tells, by lower-case names without what they belong to."""
        ...


class _Json:
    """Indented objects, in an array or one after the other."""

    def begins(self, line: bytes) -> bool:
        return line.strip() == b"{"

    def ends(self, lines: Sequence[bytes]) -> bool:
        first, last = lines[0].rstrip(), lines[-1].rstrip(b"\r ,")
        return last.endswith(b"}") and last[:-1] == first[:-1]

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        try:
            document = json.loads(b"\n".join(lines).rstrip(b"\r ,"), strict=False)
        except (ValueError, RecursionError):
            return None
        found = _flat(document)
        payload = document.get("jsonPayload") if isinstance(document, dict) else None
        said = next((found[name] for name in _TEXTS if name in found), "")
        if isinstance(payload, dict) and not any(map(str.isdigit, said)):
            # What it tells, its fields tell.
            found["text_payload"] = json.dumps(payload)
        return found


class _Yaml:
    """gcloud's own way: documents between rules of dashes."""

    def begins(self, line: bytes) -> bool:
        return line.rstrip() == _RULE

    def ends(self, lines: Sequence[bytes]) -> bool:
        return len(lines) > 1 and lines[-1].rstrip() == _RULE

    def fields(self, lines: Sequence[bytes]) -> Mapping[str, str] | None:
        found: dict[str, str] = {}
        name, within, between = "", 0, " "
        for line in (each.decode("utf-8", "replace").rstrip("\r") for each in lines[1:]):
            indent = len(line) - len(line.lstrip(" "))
            match = _YAML.match(line)
            if name and indent > within:
                found[name] += (between if found[name] else "") + line.strip()
            elif match is not None:
                told, within = match[3] or "", indent
                name = _name_of(match[2].strip("'\"")) if told else ""
                if name in _FIELDS and name not in found:
                    is_block = _YAML_BLOCK.match(told) is not None
                    found[name], between = "" if is_block else told, "\n" if told[0] == "|" else " "
                else:
                    name = ""
        return {name: _unquoted(text) for name, text in found.items()}


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
        found: dict[str, str] = {}
        for name, cell in zip(self._names, cells, strict=True):
            if cell:
                found.setdefault(name, cell)
        return found


class Exports:
    """Entries out of the lines of an export, in its order."""

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
        self.begun = 0
        """Entries begun so far, and what looked like one: the last of them is that of the line taken last."""

    @staticmethod
    def begin_with(line: bytes) -> bool:
        """Whether a log whose first line this is may be an export."""
        return line.rstrip() in (b"[", b"{", _RULE) or _CSV_HEADER.match(line) is not None

    @property
    def is_none(self) -> bool:
        """Whether this is no export, as so many lines that belong to no entry say."""
        return self._others > MOST_OTHERS and not self._lines and not self._part

    def hold(self, part: bytes) -> None:
        """The beginning of a line, whose rest will be taken."""
        self._part = (self._part + part)[-LONGEST_ENTRY:]

    def take(self, line: bytes, offset: int = -1) -> Iterator[bytes | tuple[int, Entry]]:
        """What a line brings to its end: an entry with its place (from 0), or lines that belong to none.

        `offset` says where the line begins (or what of it comes after what was held), in bytes.
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
            self.begun += 1
            self._offset = offset
        self._lines.append(line)
        self._size += len(line)
        if self._format.ends(self._lines):
            yield from self._whole()
            if line.rstrip() == _RULE:
                # What ends a document begins the next.
                self.begun += 1
                self._lines, self._size, self._offset = [line], len(line), offset
        elif len(self._lines) > MOST_LINES or self._size > LONGEST_ENTRY:
            yield from self._given_up()

    def rest(self) -> Iterator[bytes | tuple[int, Entry]]:
        """What is left at the log's end."""
        if self._part:
            yield from self.take(b"")
        if self._lines:
            yield from self._whole()

    def _whole(self) -> Iterator[bytes | tuple[int, Entry]]:
        found = self._format.fields(self._lines)
        text = None if found is None else next((found[name] for name in _TEXTS if name in found), None)
        if found is None or text is None:
            yield from self._given_up()
            return
        self._lines, self._size, self._others = [], 0, 0
        yield self.begun - 1, replace(_entry(found, text), offset=self._offset)

    def _given_up(self) -> Iterator[bytes]:
        lines, self._lines, self._size = self._lines, [], 0
        self._others += len(lines)
        yield from lines


class Chronology:
    """Puts entries in the order in which they were written: exports begin with the newest more often than not."""

    def __init__(self) -> None:
        self._newest: float | None = None
        self._is_backwards: bool | None = None
        self._held: list[tuple[int, Entry]] = []
        self._size = 0

    def take(self, place: int, entry: Entry) -> list[tuple[int, Entry]]:
        """The entries whose turn has come with this one; none as long as older ones are to come."""
        moment, newest = entry.moment, self._newest
        if moment is not None:
            if self._is_backwards is None and newest is not None and moment != newest:
                self._is_backwards = moment < newest
            self._newest = moment
        self._held.append((place, entry))
        self._size += len(entry.said)
        return self.rest() if self._is_backwards is False or self._size > MOST_HELD else []

    def rest(self) -> list[tuple[int, Entry]]:
        """All that are left."""
        held, self._held, self._size = self._held, [], 0
        return held[::-1] if self._is_backwards else held


def _entry(found: Mapping[str, str], text: str) -> Entry:
    number = found.get("worker_id", "")
    return Entry(
        int(number) if number.isascii() and number.isdigit() and len(number) < 6 else None,
        next((found[name][:200] for name in _HOSTS if name in found), None),
        next((moment for moment in (_moment(found.get(name, "")) for name in _TIMES) if moment is not None), None),
        text.encode("utf-8", "surrogatepass"),
    )


def _moment(text: str) -> float | None:
    match = _MOMENT.match(text)
    if match is None:
        return None
    whole = read_moment(f"{match[1]} {match[2]}".encode())
    return None if whole is None else whole + float(match[3] or 0)


def _flat(document: Any, depth: int = 4) -> dict[str, str]:
    """The fields of an object, those of objects in it behind its own."""
    found: dict[str, str] = {}
    inner: list[tuple[str, Any]] = []
    for name, value in document.items() if isinstance(document, dict) else ():
        if isinstance(value, (str, int, float)):
            found.setdefault(_name_of(name), str(value))
        else:
            inner.append((name, value))
    # The payload last: what a program tells of itself is not what its machine is called.
    for _, value in sorted(inner, key=lambda each: each[0] == "jsonPayload"):
        for name, told in (_flat(value, depth - 1) if depth else {}).items():
            found.setdefault(name, told)
    return found


def _name_of(name: str) -> str:
    """`resource.labels.worker_id` or `textPayload` as the other formats call it."""
    return _CAPITAL.sub("_", re.split(r"[./]", name)[-1]).lower()


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text.replace("\\ ", ""), strict=False))
        except ValueError:
            return text[1:-1]
    return text
