"""Packet loss on one port, in a network namespace that belongs to this process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

INSIDE = "TPU_TUI_CHAOS_NAMESPACE"
MISSING = (
    "dropping packets needs root"
    if os.geteuid() != 0
    else next((f"no {name} here" for name in ("unshare", "ip", "nft") if shutil.which(name) is None), "")
)


def is_inside() -> bool:
    """Return whether this process runs in its own network namespace, where rules affect no other process."""
    return INSIDE in os.environ


def enter(arguments: list[str]) -> None:
    """Restart this program in its own network namespace, unless it already runs there or cannot."""
    if is_inside() or MISSING:
        return
    os.environ[INSIDE] = "1"
    script = 'ip link set lo up && exec "$@"'
    os.execvp("unshare", ["unshare", "-n", "sh", "-c", script, "sh", sys.executable, "-m", "tests.chaos", *arguments])


@contextlib.contextmanager
def dropping(port: int, percent: int) -> Iterator[None]:
    """Drop `percent` of the packets to and from a TCP port, also of open connections, while the context lasts."""
    table = f"drop_{port}"
    some = "" if percent >= 100 else f"numgen random mod 100 < {percent} "
    rules = [
        f"add table inet {table}",
        f"add chain inet {table} in {{ type filter hook input priority 0; }}",
        *(f"add rule inet {table} in tcp {side} {port} {some}drop" for side in ("dport", "sport")),
    ]
    subprocess.run(["nft", "-f", "-"], input="\n".join(rules), text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", table], check=True)
