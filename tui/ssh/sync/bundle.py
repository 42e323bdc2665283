"""A tree in the form in which it is sent: an sh program that creates it, and the bytes of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tui.errors import WorkerError
from tui.ssh.errors import quote_remote
from tui.ssh.sync.source_tree import SourceTree, TreeEntry, read_tree

BLOCK_BYTES = 1 << 16
"""Bytes read, and sent, at a time."""
_LENGTH_DIGITS = 20
"""Digits of a length in the stream, padded with zeros."""
_MAX_INLINE_BYTES = 32 * 1024
"""The largest text that the program contains and the shell writes itself."""
_MAX_INLINE_TOTAL_BYTES = 8 * 1024 * 1024
_NAMES_PER_COMMAND = 100
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Bundle:
    """A tree ready to be sent: `script` creates it from its own text and the bytes of the `streamed` files."""

    tree: SourceTree
    script: bytes
    manifest: bytes
    streamed: tuple[TreeEntry, ...]

    @property
    def size(self) -> int:
        """Bytes sent to a worker."""
        texts = len(self.manifest) + len(self.script) + 2 * _LENGTH_DIGITS
        return texts + sum(entry.size for entry in self.streamed)

    def blocks(self, worker: int) -> Iterator[bytes]:
        """Yield the bytes to send. Raises WorkerError for that worker when a file is gone or has become shorter."""
        for text in (self.manifest, self.script):
            yield b"%0*d" % (_LENGTH_DIGITS, len(text))
            yield from (text[start : start + BLOCK_BYTES] for start in range(0, len(text), BLOCK_BYTES))
        for entry in self.streamed:
            yield from self._read(entry, worker)

    def _read(self, entry: TreeEntry, worker: int) -> Iterator[bytes]:
        remaining, problem = entry.size, "became shorter while it was sent"
        try:
            with self.tree.path_of(entry).open("rb") as file:
                while block := file.read(min(remaining, BLOCK_BYTES)):
                    remaining -= len(block)
                    yield block
        except OSError as error:
            problem = f"can no longer be read here: {error.strerror}"
        if remaining:
            raise WorkerError(
                "the code did not arrive",
                worker=worker,
                why=f"{quote_remote(entry.path)} {problem}",
                remedy="sync again when nothing changes it",
            )


def read_bundle(directory: Path) -> Bundle:
    """Read a directory and prepare it for sending. Blocks; raises UsageError when it cannot be read.

    The program contains small texts, which the shell writes itself: a process per file would cost far more. All other
    files are cut out of the stream that follows, in order.
    """
    tree = read_tree(directory)
    entries = tree.entries
    folders = {entry.path.rpartition(b"/")[0] for entry in entries} | {e.path for e in entries if e.kind == "d"}
    lines = _in_groups(b"mkdir -p", [_shell_quoted(folder) for folder in sorted(folders - {b""})])
    streamed: list[TreeEntry] = []
    inline = 0
    for entry in entries:
        name = _shell_quoted(entry.path)
        if entry.kind == "l":
            lines.append(b"ln -s -- " + _shell_quoted(entry.target, here=False) + b" " + name)
        elif entry.kind in ("f", "x"):
            text = _small_text(tree, entry) if inline + entry.size <= _MAX_INLINE_TOTAL_BYTES else None
            if text is None:
                streamed.append(entry)
                lines.append(b"head -c %d >%s" % (entry.size, name))
            else:
                inline += entry.size
                lines.append(b"printf %s " + _shell_quoted(text, here=False) + b" >" + name)
    lines += _in_groups(b"chmod u+x", [_shell_quoted(entry.path) for entry in entries if entry.kind == "x"])
    return Bundle(tree, b"\n".join(lines) + b"\n", _manifest(entries), tuple(streamed))


def _in_groups(command: bytes, names: list[bytes]) -> list[bytes]:
    return [
        command + b" " + b" ".join(names[start : start + _NAMES_PER_COMMAND])
        for start in range(0, len(names), _NAMES_PER_COMMAND)
    ]


def _small_text(tree: SourceTree, entry: TreeEntry) -> bytes | None:
    """Return a file's bytes if they fit in a shell program: short, valid UTF-8, no control characters; else None."""
    if entry.size > _MAX_INLINE_BYTES:
        return None
    try:
        data = tree.path_of(entry).read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError):
        return None
    return None if len(data) != entry.size or _CONTROL.search(data) else data


def _shell_quoted(path: bytes, *, here: bool = True) -> bytes:
    return b"'" + ((b"./" if here else b"") + path).replace(b"'", b"'\"'\"'") + b"'"


def _manifest(entries: Iterable[TreeEntry]) -> bytes:
    """Return the input of `sha256sum -c`: a line whose name needs escapes (backslash, newline) begins with `\\`."""
    lines = []
    for entry in entries:
        if entry.kind not in ("f", "x") or b"\r" in entry.path:
            continue
        escaped = re.sub(rb"[\\\n]", lambda m: b"\\n" if m[0] == b"\n" else b"\\\\", entry.path)
        mark = b"\\" if escaped != entry.path else b""
        lines.append(mark + entry.digest.encode() + b"  ./" + escaped + b"\n")
    return b"".join(lines)
