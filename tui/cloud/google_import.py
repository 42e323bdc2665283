"""The import of Google's libraries, silently and by one thread at a time."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import warnings

_LOCK = threading.RLock()
_QUIET = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "false", "GLOG_minloglevel": "3"}
"""gRPC reads these on its first import. Its C code writes to descriptor 2, where the console draws."""


def silence_libraries() -> None:
    """Keep the output of Google's libraries off stderr; call this before they are imported."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("google", "grpc"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
    warnings.filterwarnings("ignore", message="Unrecognized .* enum value")
    warnings.filterwarnings("ignore", message="Your application has authenticated using end user credentials")


def import_google(*modules: str) -> None:
    """Import modules of Google's libraries, before a thread imports others of the same packages.

    Two threads of which one imports `google.auth` and the other `google.auth.exceptions` can end with
    `_DeadlockError`: each holds the lock of a module that the other one needs.
    """
    with _LOCK:
        silence_libraries()
        for module in modules:
            importlib.import_module(module)
