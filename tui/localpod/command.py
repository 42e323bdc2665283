"""`local up`: a local pod in the foreground, until a signal or the end of standard input."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tui.errors import UsageError
from tui.localpod.cleanup.keeper_wait import await_keepers, living_keepers
from tui.localpod.pod import LocalPod

EXPOSED = (
    "Other users of this machine can read and replace what is in the pod's bucket: its server cannot have a network "
    "namespace of its own here ({})."
)


def run_local_up(
    pod: LocalPod,
    *,
    announce: Callable[[Mapping[str, Any]], None],
    warn: Callable[[str], None] = lambda _: None,
    with_parent: bool = False,
) -> None:
    """Run a local pod until SIGINT, SIGTERM or SIGHUP; return after everything has been removed.

    `announce` is called once, with `LocalPod.announcement()`, when the pod is ready; before it, `warn` is called for
    each security problem. `with_parent` also ends the pod when standard input ends. Raises TpuTuiError if the pod
    cannot start.
    """
    asyncio.run(_run(pod, announce, warn, with_parent))


async def _run(
    pod: LocalPod,
    announce: Callable[[Mapping[str, Any]], None],
    warn: Callable[[str], None],
    with_parent: bool,
) -> None:
    end = asyncio.Event()
    _end_on_signals(end)
    if with_parent:
        _end_with_stdin(end)
    starting = asyncio.create_task(pod.start())
    ending = asyncio.create_task(end.wait())
    try:
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            if pod.exposure:
                warn(EXPOSED.format(pod.exposure))
            announce(pod.announcement())
            await ending
    finally:
        for task in (starting, ending):
            task.cancel()
        await asyncio.gather(starting, ending, return_exceptions=True)
        keepers = living_keepers(pod.home / "runs")
        await pod.close()
        await await_keepers(keepers)


def _end_on_signals(end: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, end.set)
    loop.add_signal_handler(signal.SIGTERM, end.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup, it stays ignored
        loop.add_signal_handler(signal.SIGHUP, end.set)


def _end_with_stdin(end: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def look() -> None:
        if not os.read(descriptor, 1 << 12):
            loop.remove_reader(descriptor)
            end.set()

    try:
        loop.add_reader(descriptor, look)
    except PermissionError as error:
        raise UsageError("--with-parent needs a pipe or a terminal as standard input") from error
