"""The fork server of worker hosts: one process with the SSH library imported that forks a host for each worker.

`python -m tui.localpod.host.fork_server FD POD`: a datagram on the socket FD is one `HostSpec`, with two descriptors:
the listening socket, and a pipe on which the host reports that it is ready. The pipe closes when the host ends. A
fork costs milliseconds and shares the library's memory; a new interpreter would cost 0.2 s and 40 MB.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from typing import NoReturn

from tui.localpod.cleanup.process_sweep import Mark
from tui.localpod.host.host_spec import HostSpec
from tui.localpod.host.worker_host import serve_worker

MAX_SPEC_BYTES = 1 << 16
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
"""prctl(2)."""


def _prctl(option: int, value: int | bytes) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def run_host(spec: HostSpec, listener: socket.socket, life: int) -> NoReturn:
    """Run one worker in the forked process; never return."""
    status = 1
    try:
        spec.mark.put_on()
        _prctl(_PR_SET_NAME, f"tpu-w-{spec.index}".encode())
        asyncio.run(serve_worker(spec, listener, lambda key: _answer(life, {"pid": os.getpid(), "host_key": key})))
        status = 0
    except Exception as error:
        traceback.print_exc()
        _answer(life, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def _answer(life: int, answer: dict[str, object]) -> None:
    os.write(life, (json.dumps(answer) + "\n").encode())


def _reset_process_state(pod: str) -> None:
    """Reset ignored and blocked signals and the umask, which every job would inherit; mark this process."""
    for number in _DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    Mark(pod).put_on()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _reap() -> None:
    """Reap exited children. Unreaped zombies would look alive to the process sweep."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(control: socket.socket) -> None:
    """Fork a host for each request until the other end of `control` closes."""
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    os.set_blocking(wake_reader, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake_reader, select.POLLIN)
    gc.collect()
    gc.freeze()
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if wake_reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_reader, MAX_SPEC_BYTES)
            _reap()
        if control.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, MAX_SPEC_BYTES, 2)
        if not data:
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        listener, life = socket.socket(fileno=descriptors[0]), descriptors[1]
        if os.fork() == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (wake_reader, wake_writer):
                os.close(descriptor)
            control.close()
            run_host(HostSpec.from_bytes(data), listener, life)
        listener.close()
        os.close(life)


def main() -> None:
    """Serve the socket that the arguments name, for the pod that they name."""
    descriptor, pod = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(descriptor, False)
    _reset_process_state(pod)
    serve(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main()
