"""Let forked children use the fork server of their parent, which multiprocessing has no public way for.

Without it each rank starts a fork server of its own, for 2.6 s of CPU and 265 MB: the CPU time and memory of a start
with loader processes would suffer.
"""

from __future__ import annotations

import os
from multiprocessing import forkserver


def share_forkserver_with_children() -> None:
    """Have children that this process forks take for granted that its fork server runs.

    Python's own check would wait for a child that is not the asking process's, and start another server.
    """
    os.register_at_fork(after_in_child=lambda: setattr(forkserver._forkserver, "ensure_running", _assume_running))


def _assume_running() -> None:
    """Do nothing: the server lives as long as any process that has its address, unless it was killed."""
