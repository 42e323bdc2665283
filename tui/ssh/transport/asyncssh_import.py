"""asyncssh, loaded once and quickly: it is half of what a short command costs."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tui.procs.lazy_imports import without

_UNUSED = "asyncssh.crypto.x509"
"""X.509 certificates, which asyncssh takes for optional and no worker of a pod has: a quarter of its loading time."""
_LINKER_CACHE = Path("/etc/ld.so.cache")
"""Where ldconfig(8) keeps the name of every shared library of the machine."""


@functools.cache
def load_asyncssh() -> None:
    """Import asyncssh and all that a login needs, without the compilers it starts; nothing is collected meanwhile.

    Importing it later is as good, and slower by a quarter.
    """
    if "asyncssh" in sys.modules:
        return
    collecting = gc.isenabled()
    gc.disable()
    try:
        with _libraries_from_cache(), without(_UNUSED):
            import tui.ssh.connection
            import tui.ssh.transport.login  # noqa: F401
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _libraries_from_cache() -> Iterator[None]:
    """Have `ctypes.util.find_library` tell at once that there is no library where the linker's cache has none.

    asyncssh looks for two optional ones when it is imported. For each that is missing ctypes starts ldconfig, gcc
    and ld, under several names: 28 programs.
    """
    import ctypes.util

    util: Any = ctypes.util
    names = _cached_names() if sys.platform == "linux" and not os.environ.get("LD_LIBRARY_PATH") else None
    if names is None:
        yield
        return
    find: Callable[[str], str | None] = util.find_library
    util.find_library = lambda name: find(name) if b"lib%s.so" % os.fsencode(name) in names else None
    try:
        yield
    finally:
        util.find_library = find


def _cached_names() -> bytes | None:
    try:
        return _LINKER_CACHE.read_bytes()
    except OSError:
        return None
