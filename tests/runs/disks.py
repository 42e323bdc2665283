"""Small disks for tests: file systems of a few megabytes that can be filled to the last block."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import wait_until

MEGABYTE = 1 << 20


class NoDiskError(Exception):
    """A file system that this user cannot make or mount on this machine."""


@contextlib.contextmanager
def mounted(kind: str, place: Path, megabytes: int) -> Iterator[Path]:
    """Mount a new file system (tmpfs, ext4, or ext2, which has no fallocate) and unmount it in any case.

    Raise NoDiskError where this user or machine cannot mount one.
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
        wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True).returncode == 0)
        image.unlink(missing_ok=True)


def _do(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise NoDiskError(f"no {command[0]} here")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoDiskError(f"{command[0]} does not work here: {done.stderr.strip()}")


def fill(disk: Path) -> Path:
    """Fill a disk to its last block; return the file that holds the blocks."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as handle, contextlib.suppress(OSError):
        for block in (MEGABYTE, 4096):
            with contextlib.suppress(OSError):
                while handle.write(bytes(block)):
                    pass
    return ballast
