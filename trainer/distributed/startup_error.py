"""Print a start-up error once: worker 0 prints it, the others stay silent if worker 0 has the same one.

There are no ranks yet that could agree. Worker 0 serves its sentence at the coordinator's address, where the
others read it.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from trainer.progress import write_error

WAIT_S = 5.0  # in which workers that were started together meet the same error
POLL_INTERVAL_S = 0.1
MARK = b"worker 0 does not start: "
LONGEST_BYTES = 65536  # bytes of a sentence

Address = tuple[str, int]


def print_once(sentence: str, environ: Mapping[str, str]) -> None:
    """Print on standard error why this worker does not start, unless worker 0 has printed the same sentence."""
    worker, workers, address = _place(environ)
    if worker == 0 or address is None or _reason_of_worker_0(address) != sentence:
        write_error(sentence)
    if worker == 0 and workers > 1 and address is not None:
        _serve_reason(sentence, address, workers - 1)


def _place(environ: Mapping[str, str]) -> tuple[int, int, Address | None]:
    """Return this worker, how many there are, and worker 0's address; 0, 1, None for a bad environment."""
    try:
        worker, workers = (
            int(environ.get(name, "") or own) for name, own in (("TPU_TUI_WORKER", 0), ("TPU_TUI_WORKERS", 1))
        )
        host, _, port = environ.get("TPU_TUI_COORDINATOR", "").strip().rpartition(":")
        return worker, workers, (host.strip("[]"), int(port)) if host else None
    except ValueError:
        return 0, 1, None


def _serve_reason(sentence: str, address: Address, others: int) -> None:
    deadline = time.monotonic() + WAIT_S
    with contextlib.suppress(OSError):  # not this machine's address, or taken: then each worker prints it
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with socket.create_server(address, family=family, backlog=others) as listener:
            while others and (left := deadline - time.monotonic()) > 0:
                listener.settimeout(left)
                caller, _ = listener.accept()
                with caller:
                    caller.sendall(MARK + sentence.encode())
                others -= 1


def _reason_of_worker_0(address: Address) -> str:
    """Return why worker 0 does not start; empty where it starts, or gives no reason."""
    deadline = time.monotonic() + WAIT_S
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(OSError):
            return read_reason(address, left)
        time.sleep(POLL_INTERVAL_S)
    return ""


def read_reason(address: Address, timeout: float) -> str:
    """Return why worker 0 does not start; empty where something else listens there. Raises OSError if nothing does.

    A store closes the connection at once, as this end does, so a healthy start is not delayed.
    """
    with socket.create_connection(address, timeout=timeout) as worker_0:
        answer = b""
        with contextlib.suppress(OSError):
            worker_0.shutdown(socket.SHUT_WR)
            answer = worker_0.makefile("rb").read(LONGEST_BYTES)
    return answer.removeprefix(MARK).decode("utf-8", "replace") if answer.startswith(MARK) else ""
