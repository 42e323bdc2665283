"""Import asyncssh quickly: it is half of what a short command costs."""

from __future__ import annotations

import functools
import importlib
import warnings

from tui.procs.lazy_imports import without

_UNUSED = "asyncssh.crypto.x509"
"""X.509 certificates, which asyncssh treats as optional and no worker of a pod has: a third of its loading time."""


@functools.cache
def load_asyncssh() -> None:
    """Import asyncssh without X.509; `make bench` (fanout: exec against pdsh) needs it. Importing it later works too.

    A server that only offers finite-field Diffie-Hellman still gets in, without a warning on the screen.
    """
    with without(_UNUSED):
        importlib.import_module("asyncssh")
    warnings.filterwarnings("ignore", message="Diffie-Hellman over finite fields")
