"""A hosts file: any machines reached over SSH, one worker per line, in worker order."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

from tui.cloud.inventory import Inventory, Listing, pick_slice
from tui.errors import UsageError
from tui.pod.slice import HOSTS_FILE, Slice
from tui.pod.worker import MOST_PORT, SSH_PORT, Worker
from tui.settings.home import read_user_file
from tui.text.numbers import parse_integer

_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")
_MAX_BYTES = 1 << 20
"""A larger file is not a hosts file."""
_ENTRY_SHOWN = 120
"""Characters of an invalid line that the error repeats."""
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+$-]*")
_FORM = "[user@]host[:port], an IPv6 address with a port in brackets"
_WHAT_IT_IS = f"name a text file with one worker per line: {_FORM}"


class HostsFile(Inventory):
    """The inventory of a hosts file: one slice, read again each time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def slices(self) -> Listing:
        """Return the file's one slice. Raises UsageError naming file and line when it is not a hosts file."""
        return Listing((read_hosts(self._path),))

    async def get(self, name: str, zone: str | None) -> Slice:
        """Return the file's slice under its name. Raises UsageError for another name."""
        return pick_slice(name, zone, await self.slices())

    async def find(self, name: str, zone: str) -> Slice | None:  # noqa: ARG002
        """Return the file's slice if it has this name."""
        return next((slice_ for slice_ in (await self.slices()).slices if slice_.name == name), None)

    async def metadata(self, slice_: Slice) -> dict[str, str]:  # noqa: ARG002
        """Raise UsageError: these machines have no metadata."""
        raise UsageError(
            "the machines of a hosts file have no metadata",
            remedy="use ssh-copy-id -i KEY.pub USER@HOST for each of them",
        )

    async def describe(self, slice_: Slice) -> dict[str, Any]:
        """Return the workers."""
        return {"workers": [worker.to_json() for worker in slice_.workers]}


def slice_name(path: Path) -> str:
    """Return the slice's name: the file's without its last suffix, unusual characters replaced by `-`."""
    return _UNSAFE_IN_NAME.sub("-", path.stem)


def read_hosts(path: Path) -> Slice:
    """Read a hosts file. Raises UsageError naming file and line for an invalid line, and for a worker given twice."""
    workers: list[Worker] = []
    lines: dict[tuple[str, int], int] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        entry = line.split("#", 1)[0].strip()
        if not entry:
            continue
        worker = _worker(len(workers), entry, f"{path}, line {number}")
        first = lines.setdefault((_dns_name(worker.internal_ip or worker.hostname or ""), worker.port), number)
        if first != number:
            positions = f"{path}, lines {first} and {number}"
            raise UsageError(
                f"{_quote(entry)} is named twice", why=positions, remedy="remove one line: a machine is one worker"
            )
        workers.append(worker)
    if not workers:
        raise UsageError(
            "the hosts file names no worker", why=str(path), remedy=f"write one worker per line: {_FORM}"
        )
    return Slice(name=slice_name(path), source=HOSTS_FILE, workers=tuple(workers))


def _dns_name(host: str) -> str:
    """Return a name as DNS compares it: without capitals and a final dot."""
    return host.lower().removesuffix(".")


def _text(path: Path) -> str:
    try:
        content = read_user_file(path, pipe=True)
        if len(content) > _MAX_BYTES:
            why = f"{path} is larger than {_MAX_BYTES >> 20} MiB"
            raise UsageError("not a hosts file", why=why, remedy=_WHAT_IT_IS)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError("no such hosts file", why=str(path), remedy=_WHAT_IT_IS) from None
    except UnicodeDecodeError:
        raise UsageError("the hosts file is not text", why=str(path), remedy=_WHAT_IT_IS) from None
    except OSError as error:
        raise UsageError(
            "the hosts file cannot be read", why=f"{path}: {error.strerror}", remedy=_WHAT_IT_IS
        ) from None


def _worker(index: int, entry: str, position: str) -> Worker:
    user, at, address = entry.rpartition("@")
    host, port_text = _host_and_port(address)
    is_address = _is_ip(host)
    if (at and not _USER.fullmatch(user)) or not (is_address or _HOST.fullmatch(host)):
        raise UsageError(f"not a worker: {_quote(entry)}", why=position, remedy=f"write {_FORM}")
    port = SSH_PORT if port_text is None else parse_integer(port_text, MOST_PORT)
    if not port:
        raise UsageError(
            f"no valid port in {_quote(entry)}", why=position, remedy=f"a port is a number from 1 to {MOST_PORT}"
        )
    return Worker(
        index=index,
        hostname=None if is_address else host,
        internal_ip=host if is_address else None,
        port=port,
        user=user or None,
    )


def _host_and_port(address: str) -> tuple[str, str | None]:
    """Split an address; the host is empty if it has none of the forms."""
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        is_valid = bracket and _is_ip(host) and rest[:1] in ("", ":")
        return host if is_valid else "", rest[1:] if rest else None
    if address.count(":") > 1:
        return address if _is_ip(address) else "", None
    host, colon, port = address.partition(":")
    return host, port if colon else None


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _quote(entry: str) -> str:
    return repr(entry) if len(entry) <= _ENTRY_SHOWN else f"{entry[:_ENTRY_SHOWN]!r}…"
