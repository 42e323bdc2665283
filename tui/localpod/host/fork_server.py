"""Where workers are born: one process that has the SSH library imported and forks a host for every worker asked for.

`python -m tui.localpod.host.fork_server FD POD`: a datagram on the socket FD is one `HostSpec`, with two descriptors:
the listening socket, and a pipe on which the host says that it is ready and which it holds for as long as it lives. A
fork costs milliseconds and shares the library's memory, where an interpreter of its own costs 0.2 s and 40 MB.
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
from tui.localpod.host.worker_host import serve

MAX_SPEC = 1 << 16
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
"""prctl(2)."""


def _prctl(option: int, value: int | bytes) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def be_host(spec: HostSpec, listener: socket.socket, life: int) -> NoReturn:
    """In the fork: be one worker; never returns."""
    status = 1
    try:
        spec.mark.put_on()
        _prctl(_PR_SET_NAME, f"tpu-w-{spec.index}".encode())
        asyncio.run(serve(spec, listener, lambda key: _say(life, {"pid": os.getpid(), "host_key": key})))
        status = 0
    except Exception as error:
        traceback.print_exc()
        _say(life, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def _say(life: int, answer: dict[str, object]) -> None:
    os.write(life, (json.dumps(answer) + "\n").encode())


def _start_like_a_service(pod: str) -> None:
    """Undo what the parent's terminal may have left: ignored and blocked signals go through exec to every job."""
    for number in _DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    Mark(pod).put_on()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _reap() -> None:
    """Bury hosts, and the jobs that killed hosts left: where nobody else does, zombies would be taken for living."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def tend(control: socket.socket) -> None:
    """Fork a host for every request until the other end closes."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    os.set_blocking(told, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(told, select.POLLIN)
    gc.collect()
    gc.freeze()
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if told in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(told, MAX_SPEC)
            _reap()
        if control.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, MAX_SPEC, 2)
        if not data:
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        listener, life = socket.socket(fileno=descriptors[0]), descriptors[1]
        if os.fork() == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (told, tell):
                os.close(descriptor)
            control.close()
            be_host(HostSpec.from_bytes(data), listener, life)
        listener.close()
        os.close(life)


def main() -> None:
    """Serve the socket whose number and pod are the arguments."""
    descriptor, pod = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(descriptor, False)
    _start_like_a_service(pod)
    tend(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main()
