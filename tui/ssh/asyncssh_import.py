"""asyncssh, imported quickly and without starting other programs: half the cost of a short command.

Every module takes it from here. It is imported without X.509, as `make bench` (fanout: exec against pdsh) needs. Its
log messages, and its warning about servers that only offer finite-field Diffie-Hellman, are kept off the screen.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tui.procs.lazy_imports import without

__all__ = ["asyncssh"]

_UNUSED = "asyncssh.crypto.x509"
"""X.509 certificates: optional in asyncssh, unused by pods, and a third of its import time."""
_LINKER_CACHE = Path("/etc/ld.so.cache")
"""The names of all shared libraries of the machine: ldconfig(8)."""


@contextlib.contextmanager
def _find_library_without_compilers() -> Iterator[None]:
    """Answer `ctypes.util.find_library` without starting a program for a library that is not there.

    asyncssh searches for optional libraries (nettle, oqs) when it is imported. For each missing one, ctypes starts
    ldconfig, gcc and ld: 28 programs, which inherit the environment with its secrets and need a writable /tmp.
    """
    util: Any = importlib.import_module("ctypes.util")
    try:
        names = _LINKER_CACHE.read_bytes()
    except OSError:  # as on macOS, which has no such file
        yield
        return
    find: Callable[[str], str | None] = util.find_library
    util.find_library = lambda name: find(name) if _is_there(name, names) else None
    try:
        yield
    finally:
        util.find_library = find


def _is_there(name: str, cached_names: bytes) -> bool:
    """Return whether the linker's cache or a directory of LD_LIBRARY_PATH has a library."""
    directories = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    file = f"lib{name}.so"
    return os.fsencode(file) in cached_names or any(
        next(Path(directory).glob(f"{file}*"), None) for directory in directories
    )


with _find_library_without_compilers(), without(_UNUSED):
    import asyncssh

logging.getLogger("asyncssh").addHandler(logging.NullHandler())
warnings.filterwarnings("ignore", message="Diffie-Hellman over finite fields")
