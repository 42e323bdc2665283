"""Names of files on workers: the patterns of a fetch, and whether a listed name matches one."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass

from tui.errors import UsageError

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
