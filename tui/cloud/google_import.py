"""The import of Google's libraries, by one thread at a time."""

from __future__ import annotations

import importlib
import threading

_LOCK = threading.RLock()


def import_google(*modules: str) -> None:
    """Import modules of Google's libraries, before a thread imports others of the same packages.

    Two threads of which one imports `google.auth` and the other `google.auth.exceptions` can end with
    `_DeadlockError`: each holds the lock of a module that the other one needs.
    """
    with _LOCK:
        for module in modules:
            importlib.import_module(module)
