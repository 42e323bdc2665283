"""A network namespace for one process: no other process of the machine can connect to its loopback ports."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
"""unshare(2)."""
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
"""netdevice(7)."""
_LOOPBACK = b"lo"
_REQUEST = struct.Struct("16sh22x")
"""struct ifreq, with the interface's flags."""


def refusal_reason() -> str | None:
    """Return why this process cannot have its own network namespace; None if it can.

    A child process tries it, because a process that fails half-way cannot go back.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter_namespace()
            os._exit(0)
        except OSError as error:
            os.write(writer, (error.strerror or str(error)).encode())
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        why = answer.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return None if status == 0 else why or "the attempt failed"


def enter_namespace() -> None:
    """Move this process to a new network namespace with a working loopback device. It must have no other threads.

    Open sockets stay in the old namespace. Raises OSError if the system does not allow it.
    """
    try:
        _unshare(_CLONE_NEWNET)
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        _keep_ids(uid, gid)
    _bring_up_loopback()


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _keep_ids(uid: int, gid: int) -> None:
    """Map user and group to their own numbers in the new user namespace (user_namespaces(7))."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _, flags = _REQUEST.unpack(fcntl.ioctl(control, _SIOCGIFFLAGS, _REQUEST.pack(_LOOPBACK, 0)))
        fcntl.ioctl(control, _SIOCSIFFLAGS, _REQUEST.pack(_LOOPBACK, flags | _IFF_UP))
