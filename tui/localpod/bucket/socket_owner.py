"""The user of the client of a loopback connection, from the kernel's tables of TCP sockets (proc(5), net/tcp)."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

Address = tuple[str, int]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED = bytes(10) + b"\xff\xff"
"""The first bytes of an IPv4 address in IPv6 form."""
_UID, _INODE = 7, 9
"""Columns of a table's row."""
_READS = 3
"""Attempts to find a row: it can be missed while other sockets open and close."""
_READ_BYTES = 1 << 16


class SocketOwners:
    """Looks up the users of sockets in the network namespace in which this object was created.

    The tables stay open, so that a process that moves to another namespace still reads the tables of the first.
    """

    def __init__(self) -> None:
        paths = [path for path in _TABLES if Path(path).exists()]
        self._tables = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]

    def uid_of(self, client: Address, server: Address) -> int | None:
        """Return the user ID of the process that holds the client's socket; None if no process does.

        A socket that its process has closed belongs to no user: the kernel shows it as root's.
        """
        for _ in range(_READS):
            for table in self._tables:
                row = _row(_content(table), client, server)
                if row is not None:
                    return int(row[_UID]) if int(row[_INODE]) else None
        return None


def _row(table: bytes, client: Address, server: Address) -> list[bytes] | None:
    for is_mapped in (False, True):
        needle = f": {_place(client, is_mapped)} {_place(server, is_mapped)} ".encode()
        start = table.find(needle)
        if start >= 0:
            end = table.find(b"\n", start)
            return [b"", *table[start + 2 : end if end >= 0 else None].split()]
    return None


def _place(address: Address, is_mapped: bool) -> str:
    """Return an IPv4 address and port as the tables write them: groups of 32 bits in this machine's byte order."""
    packed = socket.inet_aton(address[0])
    packed = _MAPPED + packed if is_mapped else packed
    groups = (int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4))
    return "".join(f"{group:08X}" for group in groups) + f":{address[1]:04X}"


def _content(table: int) -> bytes:
    os.lseek(table, 0, os.SEEK_SET)
    parts = []
    while part := os.read(table, _READ_BYTES):
        parts.append(part)
    return b"".join(parts)
