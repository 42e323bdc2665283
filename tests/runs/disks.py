"""Small disks for tests: file systems of a few megabytes that can be filled to the last block."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.runs.pipes import until

MEGABYTE = 1 << 20


class NoDiskError(Exception):
    """Such a file system cannot be made or mounted here."""


@contextlib.contextmanager
def mounted(kind: str, place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that kind (tmpfs, ext4, ext2: without fallocate), unmounted whatever happens.

    Raises NoDiskError where this user or machine cannot have one.
    """
    mount, image = place / f"{kind}-disk", place / f"{kind}-image"
    mount.mkdir(parents=True)
    if kind == "tmpfs":
        _do("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(mount))
    else:
        with image.open("wb") as handle:
            handle.truncate(megabytes * MEGABYTE)
        _do(f"mkfs.{kind}", "-q", "-F", "-m", "0", str(image))
        _do("mount", "-o", "loop", str(image), str(mount))
    try:
        yield mount
    finally:
        until(lambda: subprocess.run(["umount", str(mount)], capture_output=True).returncode == 0)
        image.unlink(missing_ok=True)


def _do(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise NoDiskError(f"no {command[0]} here")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoDiskError(f"{command[0]} does not work here: {done.stderr.strip()}")


def fill(disk: Path) -> Path:
    """Leave not a single block; the file that holds them."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as handle, contextlib.suppress(OSError):
        for block in (MEGABYTE, 4096):
            with contextlib.suppress(OSError):
                while handle.write(bytes(block)):
                    pass
    return ballast
