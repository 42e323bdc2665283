"""The keeper's process: `python -m tui.runs.keeper RUN_DIR`, started by `tui.runs.keeper.start`.

It takes the run's lock, loads every module that it may need, prints its pid as its only answer and goes to the
background, where it runs the `RunLifecycle`. If another keeper holds the lock, it prints that keeper's pid and ends.

Replacing tpu-tui on disk does not disturb a running keeper: after the answer, it imports one more package only,
`tui.logs`, to watch the cores (`stall_detector`). That costs as much as everything else and is loaded once a run has
lasted a few seconds.
"""

from __future__ import annotations

from tui.procs.gc_policy import collect_rarely, freeze_existing_objects

if __name__ == "__main__":
    collect_rarely()  # nothing that the imports below make is garbage

import asyncio
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tui.cloud.open_inventory import CLOUD_MODULES
from tui.pod.run import Run, RunState
from tui.runs.health.local_pod_watch import POD_GONE, LocalPodWatch
from tui.runs.health.run_slice import slice_settings
from tui.runs.keeper.lifecycle import RunLifecycle
from tui.runs.launch.on_end_actions import actions_of
from tui.runs.record.directory_lock import DirectoryLock, living_keeper
from tui.runs.record.keeper_file import HEARTBEAT_INTERVAL_S
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import KEEPER_LOG, RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.calls import worker_script
from tui.settings import LOCAL_PROFILE
from tui.text.printable import one_line

LOCK_TIMEOUT_S = 15.0
"""Seconds for which a command that brings the mirror of a run without a keeper up to date may hold the lock."""
REPORT_FORMATS = ("html", "md", "json", "csv", "txt")
_SSH_MODULES = ("tui.ssh.connection", "tui.ssh.transport.login")
_IAP_MODULES = ("tui.ssh.transport.iap_tunnel", "aiohttp")
_REPORT_MODULES = (
    "tui.logs.dialects.grammar.names_and_values",
    "tui.logs.dialects.user_dialects",
    "tui.operator.facade",
    "tui.operator.logs",
    "tui.operator.reports",
    "tui.operator.runs",
    "tui.reports.facts",
    "tui.reports.write",
    "tui.runs.read.sample_reader",
    "tui.cloud.storage.buckets",
)


def main(arguments: list[str]) -> int:
    """Read the input, take the lock, answer, go to the background and keep the run."""
    directory = RunDirectory.open(Path(arguments[0]))
    try:
        document = json.loads(sys.stdin.buffer.read())
    except ValueError:
        print("the command that started this keeper ended before it had sent the input", file=sys.stderr)
        return 1
    lock = DirectoryLock.take(directory, LOCK_TIMEOUT_S)
    if lock is None:
        keeper = living_keeper(directory)
        if keeper is None:
            print(f"{directory.path} is locked by a process that is not a keeper", file=sys.stderr)
            return 1
        print(keeper, flush=True)
        return 0
    _load_modules(directory.run, document)
    _go_to_background(lock)
    try:
        asyncio.run(_keep(directory, lock, document))
    except Exception as error:
        if isinstance(error, OSError) and not lock.is_in_place():
            return 0  # The run's directory was deleted or moved: there is nothing to keep.
        _record_fault(directory, error)
        raise
    finally:
        lock.beat()
        lock.close()
    freeze_existing_objects()
    return 0


def _load_modules(run: Run, document: Mapping[str, Any]) -> None:
    """Load the modules that the run may need later and that are not imported above."""
    for name in (*_SSH_MODULES, *_late_modules(run, document)):
        importlib.import_module(name)
    worker_script()


def _late_modules(run: Run, document: Mapping[str, Any]) -> Iterator[str]:
    if run.zone is not None:
        yield from CLOUD_MODULES
    spec = document.get("spec") or {}
    access = (spec or document).get("access", {})
    if spec.get("preflight"):
        yield "tui.runs.launch.preflight"
    if access.get("route") == "iap":
        yield from _IAP_MODULES
    if any(action.kind == "report" for action in actions_of(run)):
        yield from _REPORT_MODULES


def _go_to_background(lock: DirectoryLock) -> None:
    """Fork and continue in the child, without input; once it has signed the lock, its parent prints the pid."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        has_signed = os.read(reader, 1)
        os.write(1, b"%d\n" % child if has_signed else b"\n")
        os._exit(0)
    os.close(reader)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)
    lock.sign()
    os.write(writer, b"!")
    os.close(writer)


async def _keep(directory: RunDirectory, lock: DirectoryLock, document: Mapping[str, Any]) -> None:
    """Run the lifecycle until it is complete, a signal arrives, or the run's directory or local pod is gone."""
    pod_watch = LocalPodWatch.for_run(directory) if directory.run.profile == LOCAL_PROFILE else None
    pod = pod_watch.pod if pod_watch else None
    lifecycle = RunLifecycle(directory, document, _write_report, pod=pod)
    running = asyncio.ensure_future(lifecycle.run())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    beating = asyncio.ensure_future(_beat(lock))
    watching = asyncio.ensure_future(pod_watch.wait_gone()) if pod_watch else None
    guards = [guard for guard in (beating, watching) if guard is not None]
    for guard in guards:
        guard.add_done_callback(lambda _: running.cancel())
    await asyncio.wait({running})
    is_pod_gone = watching is not None and watching.done() and lock.is_in_place()
    for guard in guards:
        guard.cancel()
    if not running.cancelled():
        running.result()
    elif is_pod_gone and not status_of(directory).state.is_over:
        await record(directory, "state", state=str(RunState.LOST), cause=POD_GONE)


async def _beat(lock: DirectoryLock) -> None:
    """Show signs of life for as long as the run's directory is there."""
    while lock.is_in_place():
        lock.beat()
        await asyncio.sleep(HEARTBEAT_INTERVAL_S)


async def _write_report(directory: RunDirectory, folder: str) -> list[str]:
    """Write the run's report in every format and upload it to `folder`, a gs:// URL, unless that is empty."""
    from tui.operator.facade import Operator  # for runs with `--on-end report` only, loaded before the answer

    operator = Operator(slice_settings(directory))
    try:
        files = await operator.reports.write(directory, REPORT_FORMATS)
        uploaded = await operator.reports.upload(directory, files, folder) if folder else []
    finally:
        await operator.close()
    return [*(path.name for path in files), *uploaded]


def _record_fault(directory: RunDirectory, error: Exception) -> None:
    """Record a programming error of the keeper, which would otherwise only be in keeper.log."""
    with suppress(Exception):
        fault = one_line(f"{type(error).__name__}: {error}")
        directory.append_event(
            "note", text=f"its keeper ended by a fault of tpu-tui ({fault}); {KEEPER_LOG} has more"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
