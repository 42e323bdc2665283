"""Let forked children use the fork server of their parent, for which multiprocessing has no public function.

Without it, each rank would start its own fork server, which takes 2.6 s of CPU time and 265 MB.
"""

from __future__ import annotations

import os
from multiprocessing import forkserver


def share_forkserver_with_children() -> None:
    """Make children that this process forks assume that its fork server runs.

    Python's check waits for the server as a child, which it is not for a forked process, and starts another server.
    """
    os.register_at_fork(after_in_child=lambda: setattr(forkserver._forkserver, "ensure_running", _assume_running))


def _assume_running() -> None:
    """Do nothing: the server lives as long as any process that has its address, unless it was killed."""
