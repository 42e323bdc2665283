"""Names of files on workers: the patterns of a fetch, whether a listed name matches one, and its place here."""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.errors import UsageError

Place = tuple[bytes, ...]
"""The components of a relative path."""
STAGING = b".tpu-tui-fetch"
"""The directory of incomplete files, below the destination."""
_RESERVED = re.compile(rb"worker-\d+|" + re.escape(STAGING), re.IGNORECASE)
_CLASS = re.compile(rb"\[[:.=]")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class RemoteFile:
    """A regular file of a worker: its name there, its size in bytes, and the parts of its relative name here.

    `named` is False if the request ends without a name, like `~` and `/`: then any name is possible.
    """

    source: bytes
    size: int
    parts: tuple[bytes, ...]
    named: bool = True


class RemotePattern:
    """One REMOTE argument: a file, a directory or a glob, relative to the worker's home or absolute.

    A worker is not trusted: each name that it lists must match the pattern, component by component, as in a shell.
    """

    def __init__(self, text: str) -> None:
        """Parse it. Raises UsageError for one that cannot be checked."""
        self.text = text
        raw = os.fsencode(text)
        if not raw or b"\0" in raw:
            raise UsageError("a remote name is empty", remedy="name a file, a directory or a glob of the workers")
        if _CLASS.search(raw):
            raise UsageError(
                f"{text!r} has a character class that fetch does not know", remedy="use ranges, e.g. [0-9]"
            )
        if raw.startswith(b"~") and raw != b"~" and not raw.startswith(b"~/"):
            raise UsageError(f"{text!r} names another user's home", remedy="give its full path")
        components = [component for component in raw.split(b"/") if component not in (b"", b".")]
        if components[:1] == [b"~"]:
            del components[0]
        absolute = raw.startswith(b"/")
        self.named = bool(components) and components[-1] != b".." and not raw.endswith(b"/.")
        if not self.named:
            components.append(b".")
        self._words = [b"" if absolute else b".", *components]
        self._expressions = [_expression(component) for component in self._words]

    @property
    def sent(self) -> bytes:
        """The pattern for the worker's shell, which begins with `/` or `./`."""
        return b"/".join(self._words)

    def match(self, source: bytes, size: int) -> RemoteFile | None:
        """Return the file that a worker lists for this pattern; None for a name that the pattern does not cover."""
        components = source.split(b"/")
        depth = len(self._words)
        if len(components) < depth or (len(components) == depth and not self.named):
            return None
        literal = components[:depth] == self._words
        if not literal and not all(map(_matches, self._expressions, self._words, components)):
            return None
        parts = tuple(components[depth - 1 if self.named else depth :])
        if any(component in (b"", b".", b"..") for component in parts):
            return None
        return RemoteFile(source, size, parts, self.named)


def _expression(component: bytes) -> re.Pattern[str]:
    text = _ESCAPED.sub(rb"[\1]", component).replace(b"[^", b"[!").decode("latin-1")
    return re.compile(fnmatch.translate(text))


def _matches(expression: re.Pattern[str], pattern: bytes, component: bytes) -> bool:
    """Return whether one component matches; a leading dot must be written, as in every shell."""
    if component.startswith(b".") and not pattern.startswith((b".", b"\\.")):
        return False
    return expression.match(component.decode("latin-1")) is not None


def place_files(listings: Mapping[int, Sequence[RemoteFile]]) -> dict[tuple[int, bytes], Place]:
    """Return the place of each file, by worker and name on the worker; no two files have the same place.

    A file keeps its name. Names that collide, of two workers or as a file and a directory, go below `worker-N`; two
    files of one worker with the same name keep their whole path there.
    """
    claims = Counter(file.parts for files in listings.values() for file in files)
    folders = {parts[:depth] for parts in claims for depth in range(1, len(parts))}
    places: dict[tuple[int, bytes], Place] = {}
    for worker, files in listings.items():
        own = b"worker-%d" % worker
        names = Counter(file.parts for file in files)
        used: set[Place] = set()
        for file in files:
            parts = file.parts
            if names[parts] > 1:
                parts = tuple(part for part in file.source.split(b"/") if part not in (b"", b".", b".."))
            is_shared = claims[file.parts] > 1 or file.parts in folders
            if is_shared or not file.named or _RESERVED.fullmatch(parts[0]):
                parts = (own, *parts)
            if parts not in used:
                used.add(parts)
                places[worker, file.source] = parts
    return places
