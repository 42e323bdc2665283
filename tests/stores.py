"""Skip tests that need a real object store where this machine has none."""

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
