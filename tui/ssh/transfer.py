"""Code to every worker: one command a worker, whose script and files come on its standard input.

A worker needs sh and coreutils only. Files are cut out of the stream with `head -c`, checked with sha256sum, and the
finished directory is renamed into place, so nobody ever sees half of it.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tui.errors import WorkerError
from tui.ssh.fleet import Fleet, each
from tui.ssh.reasons import quoted
from tui.ssh.tree import Entry, Tree, read_tree

if TYPE_CHECKING:
    import asyncssh

RUN_ROOT = "~/.tpu-tui"
_BLOCK = 1 << 16
_NUMBER = 20
"""Digits of a length in the stream, padded with zeros."""
_INLINE = 32 * 1024
"""Bytes of a text that a shell still writes by itself."""
_INLINE_TOTAL = 8 * 1024 * 1024
_NAMES_A_COMMAND = 100
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_WORDS = 160
"""Bytes of a worker's complaints that a message repeats."""
_PARTING = 2.0
"""Seconds to wait for the last of them."""
_MOST_CHATTER = 64
"""Lines a login shell may print before our own answer."""
_REMOTE = r"""
umask 077; LC_ALL=C; export LC_ALL
nonce=$1 hash=$2 root=$3
say() { printf '@%s %s\n' "$nonce" "$*"; }
case $root in
  '~') root=$HOME ;;
  '~/'*) root=$HOME/${root#'~/'} ;;
  /*) ;;
  *) root=$HOME/$root ;;
esac
right() { [ -d "$1" ] && { [ ! -s "$2" ] || ( cd "$1" && sha256sum --status -c "../$2" ) 2>/dev/null; }; }
number() { n=$(head -c 20); n=${n#"${n%%[!0]*}"}; printf %s "${n:-0}"; }
mkdir -p "$root/code" && cd "$root/code" || { say failed "cannot make $root/code"; exit 1; }
[ -e "$hash.sha256" ] && right "$hash" "$hash.sha256" && { say have; exit 0; }
new=.new-$hash-$nonce
trap 'cd "$root/code" && rm -rf "$new" "$new.sha256"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$new" || { say failed "cannot make $root/code/$new"; exit 1; }
say want
head -c "$(number)" >"$new.sha256"
script=$(head -c "$(number)")
( set -e; cd "$new"; eval "$script" )
[ $? = 0 ] || { say failed "a file could not be written"; exit 1; }
right "$new" "$new.sha256" || { say failed "what arrived is not what was sent"; exit 1; }
sync -f "$new" 2>/dev/null
intact() { [ -e "$hash.sha256" ] && right "$hash" "$hash.sha256"; }
if [ -e "$hash" ] && ! intact; then mv "$hash" ".old-$hash-$nonce"; fi
mv -f "$new.sha256" "$hash.sha256"
mv -T "$new" "$hash" 2>/dev/null || right "$hash" "$hash.sha256" || { say failed "cannot be put in place"; exit 1; }
rm -rf "$new" "$new.sha256"
say done
"""


@dataclass(frozen=True)
class SyncResult:
    """What one worker has now: the tree with this `hash`; `bytes` sent, none when it was there (`skipped`)."""

    worker: int
    hash: str
    bytes: int
    skipped: bool


def code_directory(run_root: str, hash_: str) -> str:
    """Where a synced tree lies on a worker; a leading `~` is the worker's home."""
    return f"{run_root.rstrip('/')}/code/{hash_}"


OnSent = Callable[[int, int, int], None]
"""Told how far a worker is: its index, bytes sent to it and bytes to send, script and checksums included."""


async def sync_tree(
    fleet: Fleet,
    indices: Iterable[int],
    directory: Path,
    *,
    run_root: str = RUN_ROOT,
    on_sent: OnSent | None = None,
) -> AsyncIterator[SyncResult | WorkerError]:
    """Bring a directory to workers as `<run_root>/code/<hash>/`; what became of each, as it becomes known.

    The tree is read once, in a thread of its own, before anything is sent. Raises UsageError when it cannot be read.
    """
    tree = await asyncio.to_thread(read_tree, directory)
    async for result in send_tree(fleet, indices, tree, run_root=run_root, on_sent=on_sent):
        yield result


async def send_tree(
    fleet: Fleet,
    indices: Iterable[int],
    tree: Tree,
    *,
    run_root: str = RUN_ROOT,
    on_sent: OnSent | None = None,
) -> AsyncIterator[SyncResult | WorkerError]:
    """As `sync_tree`, for a tree that was read before."""
    parcel = await asyncio.to_thread(_pack, tree)

    async def one(index: int) -> SyncResult:
        return await _send(fleet, index, parcel, run_root, on_sent)

    async for _, result in each(indices, one):
        yield result


@dataclass(frozen=True)
class _Parcel:
    """A tree ready to be sent: `script` makes it out of itself and of the `streamed` files' bytes."""

    tree: Tree
    script: bytes
    manifest: bytes
    streamed: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """Bytes that travel to a worker."""
        texts = len(self.manifest) + len(self.script) + 2 * _NUMBER
        return texts + sum(entry.size for entry in self.streamed)


async def _send(fleet: Fleet, index: int, parcel: _Parcel, run_root: str, on_sent: OnSent | None) -> SyncResult:
    import asyncssh

    tree = parcel.tree
    nonce = secrets.token_hex(8)
    remote = _REMOTE.encode()
    arguments = shlex.join([nonce, tree.hash, run_root])
    process = await fleet.process(index, f"exec sh -c 's=$(head -c {len(remote)}); eval \"$s\"' tpu-tui {arguments}")
    try:
        process.stdin.write(remote)
        answer, words = await _answer(process, nonce)
        if answer == "want":
            complaints = asyncio.ensure_future(_last_words(process))
            try:
                # A worker that gave up reads no further: its answer says why.
                with suppress(BrokenPipeError):
                    await _stream(process, parcel, index, on_sent)
                answer, words = await _answer(process, nonce)
                if answer != "done":
                    await asyncio.wait({complaints}, timeout=_PARTING)
                    words = f"{words}: {quoted(complaints.result())}" if complaints.done() else words
            finally:
                complaints.cancel()
    except (OSError, asyncssh.Error) as error:
        raise WorkerError(
            "the code did not arrive", worker=index, why=quoted(str(error)) or "the connection broke off"
        ) from error
    finally:
        process.close()
    if answer not in ("have", "done"):
        raise WorkerError(
            "the code did not arrive",
            worker=index,
            why=quoted(words) or "the worker broke off",
            remedy="see its disk (`df`), and that sh, head, sha256sum and mv are on its PATH",
        )
    return SyncResult(index, tree.hash, tree.bytes if answer == "done" else 0, skipped=answer == "have")


async def _last_words(process: asyncssh.SSHClientProcess[bytes]) -> bytes:
    """The end of what the worker's programs complain about."""
    kept = b""
    while block := await process.stderr.read(_BLOCK):
        kept = (kept + block)[-_WORDS:]
    return kept


async def _answer(process: asyncssh.SSHClientProcess[bytes], nonce: str) -> tuple[str, str]:
    """The worker's next word that carries our nonce, and what follows it; others are a login shell's chatter."""
    mark = f"@{nonce} ".encode()
    for _ in range(_MOST_CHATTER):
        line = await process.stdout.readline()
        if not line:
            return "", ""
        _, found, rest = line.partition(mark)
        if found:
            word, _, words = rest.decode("utf-8", "replace").strip().partition(" ")
            return word, words
    return "", "the login shell prints too much"


async def _stream(
    process: asyncssh.SSHClientProcess[bytes], parcel: _Parcel, index: int, on_sent: OnSent | None
) -> None:
    sent, size = 0, parcel.size
    for block in _pieces(parcel, index):
        process.stdin.write(block)
        await process.stdin.drain()
        sent += len(block)
        if on_sent is not None:
            on_sent(index, sent, size)
    process.stdin.write_eof()


def _pieces(parcel: _Parcel, index: int) -> Iterator[bytes]:
    for text in (parcel.manifest, parcel.script):
        yield b"%0*d" % (_NUMBER, len(text)) + text
    for entry in parcel.streamed:
        yield from _blocks(parcel.tree, entry, index)


def _blocks(tree: Tree, entry: Entry, index: int) -> Iterator[bytes]:
    left = entry.size
    with (tree.directory / os.fsdecode(entry.path)).open("rb") as file:
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:
                raise WorkerError(
                    "the code did not arrive",
                    worker=index,
                    why=f"{quoted(entry.path)} became shorter while it was sent",
                    remedy="sync again when nothing writes there",
                )
            left -= len(block)
            yield block


def _pack(tree: Tree) -> _Parcel:
    """The sh program that makes the tree, every name quoted, directories first.

    Small texts stand in it as they are, written by the shell itself: a process a file would cost far more. All other
    files are cut out of the stream that follows, in order.
    """
    entries = tree.entries
    folders = {entry.path.rpartition(b"/")[0] for entry in entries} | {e.path for e in entries if e.kind == "d"}
    lines = _in_groups(b"mkdir -p", [_quoted(folder) for folder in sorted(folders - {b""})])
    streamed: list[Entry] = []
    inline = 0
    for entry in entries:
        name = _quoted(entry.path)
        if entry.kind == "l":
            lines.append(b"ln -s -- " + _quoted(entry.target, here=False) + b" " + name)
        elif entry.kind in ("f", "x"):
            text = _small_text(tree, entry) if inline + entry.size <= _INLINE_TOTAL else None
            if text is None:
                streamed.append(entry)
                lines.append(b"head -c %d >%s" % (entry.size, name))
            else:
                inline += entry.size
                lines.append(b"printf %s " + _quoted(text, here=False) + b" >" + name)
    lines += _in_groups(b"chmod u+x", [_quoted(entry.path) for entry in entries if entry.kind == "x"])
    return _Parcel(tree, b"\n".join(lines) + b"\n", _manifest(entries), tuple(streamed))


def _in_groups(command: bytes, names: list[bytes]) -> list[bytes]:
    return [
        command + b" " + b" ".join(names[start : start + _NAMES_A_COMMAND])
        for start in range(0, len(names), _NAMES_A_COMMAND)
    ]


def _small_text(tree: Tree, entry: Entry) -> bytes | None:
    """A file's bytes where a shell can carry them: short, no NUL or other control character, valid UTF-8."""
    if entry.size > _INLINE:
        return None
    try:
        data = (tree.directory / os.fsdecode(entry.path)).read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError):
        return None
    return None if len(data) != entry.size or _CONTROL.search(data) else data


def _quoted(path: bytes, *, here: bool = True) -> bytes:
    return b"'" + ((b"./" if here else b"") + path).replace(b"'", b"'\"'\"'") + b"'"


def _manifest(entries: Iterable[Entry]) -> bytes:
    """What `sha256sum -c` reads: a name with a backslash or newline is escaped and its line begins with one."""
    lines = []
    for entry in entries:
        if entry.kind not in ("f", "x") or b"\r" in entry.path:
            continue
        escaped = re.sub(rb"[\\\n]", lambda m: b"\\n" if m[0] == b"\n" else b"\\\\", entry.path)
        mark = b"\\" if escaped != entry.path else b""
        lines.append(mark + entry.digest.encode() + b"  ./" + escaped + b"\n")
    return b"".join(lines)
