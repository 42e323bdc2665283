"""The files of a directory of code as git sees them, with a hash that identifies their content."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tui.errors import UsageError
from tui.text.printable import one_line

CACHES = frozenset(
    {
        "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints",
        ".tox", ".nox", ".DS_Store",
    }
)  # fmt: skip
"""Names to leave out where git does not know which files belong to the code."""
_CACHE_TAG = "CACHEDIR.TAG"
"""The mark of a cache directory (Cache Directory Tagging Specification)."""
_VENV_MARK = "pyvenv.cfg"
"""The mark of a virtual environment, which works only at its own path."""
_OUTSIDE = frozenset({"/", "..", ".git"})
"""Components of paths that git itself never adds to an index."""
_BLOCK = 1 << 20
HASH_DIGITS = 40


@dataclass(frozen=True)
class TreeEntry:
    """One path of a tree, relative, as bytes. `kind`: f(ile), x (executable file), l(ink), d (empty directory)."""

    path: bytes
    kind: str
    size: int = 0
    digest: str = ""
    """SHA-256 of a file's bytes, in hexadecimal."""
    target: bytes = b""


@dataclass(frozen=True)
class SourceTree:
    """The files to send from a directory; `hash` depends on paths, kinds, executable bits and bytes only."""

    directory: Path
    entries: tuple[TreeEntry, ...]
    hash: str

    @property
    def bytes(self) -> int:
        """Total size of all files."""
        return sum(entry.size for entry in self.entries)

    def path_of(self, entry: TreeEntry) -> Path:
        """Return the path of an entry on this machine."""
        return self.directory / os.fsdecode(entry.path)


def read_tree(directory: Path) -> SourceTree:
    """Read a directory: tracked and untracked files that git does not ignore; without git, all but caches.

    Blocks while it reads every file. Raises UsageError when the directory or a file in it cannot be read.
    """
    if not directory.is_dir():
        raise UsageError("no such directory", why=str(directory))
    root = directory.resolve()
    try:
        paths = sorted({os.fsencode(path) for path in _list_paths(root)})
        entries = tuple(entry for path in paths if (entry := _entry(root, path)) is not None)
    except OSError as error:
        raise UsageError("the code cannot be read", why=one_line(str(error))) from error
    return SourceTree(root, entries, _hash(entries))


def _list_paths(root: Path) -> Iterator[Path]:
    """Yield the paths that belong to the code, relative to its root."""
    listed = _git_listed(root)
    if listed is None:
        yield from _walk(root)
        return
    for path in listed:
        inner = root / path
        if inner.is_dir() and not inner.is_symlink():
            # A submodule, or a repository of its own inside this one.
            yield from (path / deeper for deeper in _list_paths(inner))
        else:
            yield path


def _git_listed(root: Path) -> list[Path] | None:
    """Return the files that git tracks or does not ignore; None without git, a repository or such files."""
    git = shutil.which("git")
    if git is None:
        return None
    # A repository may be another user's, or downloaded: reading its index is harmless, running the programs that it
    # names is not. They are its file system monitor, and those that fetch objects which a partial clone lacks.
    command = [git, "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "ls-files", "-z"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment.update(GIT_ALLOW_PROTOCOL="", GIT_NO_LAZY_FETCH="1")  # the latter since git 2.45
    process = subprocess.run(
        [*command, "--cached", "--others", "--exclude-standard"],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )

    @cache
    def is_inside(folder: Path) -> bool:
        return os.path.realpath(root / folder) == str(root / folder)

    listed = [Path(os.fsdecode(path)) for path in process.stdout.split(b"\0") if path]
    # A crafted index may hold any path, also one that leads to the user's other files.
    paths = [path for path in listed if _OUTSIDE.isdisjoint(path.parts) and is_inside(path.parent)]
    return paths if process.returncode == 0 and paths else None


def _walk(root: Path) -> Iterator[Path]:
    def failed(error: OSError) -> None:
        raise error

    for name, folders, files in os.walk(root, onerror=failed):
        folder = Path(name)
        links = [inner for inner in folders if (folder / inner).is_symlink()]
        folders[:] = sorted(inner for inner in folders if inner not in links and not _is_left_out(folder / inner))
        for file in [*files, *links]:
            if file not in CACHES and not file.endswith((".pyc", ".pyo")):
                yield (folder / file).relative_to(root)
        if folder != root and not folders and not files and not links:
            yield folder.relative_to(root)


def _is_left_out(folder: Path) -> bool:
    if folder.name == ".git" or folder.name in CACHES:
        return True
    return (folder / _CACHE_TAG).exists() or (folder / _VENV_MARK).exists()


def _entry(root: Path, path: bytes) -> TreeEntry | None:
    """Read one path; None if it is gone (deleted but still tracked), or is not a file, link or directory."""
    full = root / os.fsdecode(path)
    try:
        status = full.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return TreeEntry(path, "l", target=os.readlink(os.fsencode(full)))  # noqa: PTH115 - a Path drops ./
    if stat.S_ISDIR(status.st_mode):
        return TreeEntry(path, "d")
    if not stat.S_ISREG(status.st_mode):
        return None
    digest = hashlib.sha256()
    size = 0
    with full.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return TreeEntry(path, "x" if status.st_mode & stat.S_IXUSR else "f", size, digest.hexdigest())


def _hash(entries: tuple[TreeEntry, ...]) -> str:
    digest = hashlib.sha256()
    for entry in entries:
        for part in (entry.kind.encode(), entry.path, entry.digest.encode() or entry.target):
            digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()[:HASH_DIGITS]
