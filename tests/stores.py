"""The real object store for everybody's tests: whether this machine has it."""

from __future__ import annotations

import pytest

from tui.errors import TpuTuiError
from tui.localpod.bucket.bucket import find_binary


def _has_server() -> bool:
    try:
        return bool(find_binary())
    except TpuTuiError:
        return False


needs_store = pytest.mark.skipif(not _has_server(), reason="no fake-gcs-server for this machine")
