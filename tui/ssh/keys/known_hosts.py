"""Trusted host keys: those from the API, else those in the files of gcloud, OpenSSH and tpu-tui."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui.settings.home import check_trusted, make_private, open_regular, read_user_file
from tui.ssh import errors
from tui.ssh.config.access import Access
from tui.ssh.errors import SshError
from tui.ssh.host_login import Login

if TYPE_CHECKING:
    import asyncssh
    from asyncssh.known_hosts import SSHKnownHosts

HOST_KEY_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
"""Host key algorithms in the order to request where no key is known, as OpenSSH prefers them."""
CERTIFICATE_ALGORITHMS = tuple(f"{name}-cert-v01@openssh.com" for name in HOST_KEY_ALGORITHMS)


@dataclass(frozen=True)
class TrustedKeys:
    """The trusted keys of one host, the certificate authorities that may sign them, and the revoked keys."""

    keys: tuple[asyncssh.SSHKey, ...] = ()
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()
    vouched: bool = False
    """Whether the keys come from the cloud's API; then known-hosts files are ignored."""
    names: tuple[str, ...] = ()
    """The names searched for in the files."""
    files: tuple[str, ...] = ()

    @property
    def algorithms(self) -> list[str]:
        """Host key algorithms to request; the algorithms of the known keys come first.

        The others follow, so that a server with only another key is reported as changed, not as incompatible.
        """
        names = [name.decode() for key in self.keys for name in key.sig_algorithms]
        certified = CERTIFICATE_ALGORITHMS if self.authorities else ()
        usable = [name for name in names if name in HOST_KEY_ALGORITHMS]
        return list(dict.fromkeys([*certified, *usable, *HOST_KEY_ALGORITHMS]))


class HostKeys:
    """The known-hosts files of one access, read again when they change."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._read: dict[str, tuple[tuple[int, int], SSHKnownHosts]] = {}

    def trusted(self, login: Login, vouched: Sequence[str] = ()) -> TrustedKeys:
        """Return the trusted keys of this host; `vouched` are public key lines of the API and win over every file."""
        from tui.ssh.asyncssh_import import asyncssh

        keys: list[asyncssh.SSHKey] = []
        for line in vouched:
            with suppress(asyncssh.KeyImportError, UnicodeError):
                keys.append(asyncssh.import_public_key(line))
        if keys:
            return TrustedKeys(keys=tuple(keys), vouched=True, names=(host_key_name(login),))
        files = self.files(login)
        address = (address_name(login.host, login.port),)
        by_alias = self._search(login.aliases, files)
        by_address = self._search(address, files)
        matched = by_alias if by_alias.keys or by_alias.authorities else by_address
        return replace(matched, revoked=by_alias.revoked + by_address.revoked)

    def accept(self, worker: int | None, login: Login, key: asyncssh.SSHKey) -> None:
        """Add a key to tpu-tui's own known-hosts file. Raises SshError where it cannot be saved."""
        path = self._access.own_known_hosts
        if path is None:
            return
        try:
            add_known_host(Path(path), host_key_name(login), key)
        except OSError as error:
            raise errors.HOST_KEY_NOT_SAVED.error(worker, why=error.strerror or str(error), path=path) from error

    def alias_of(self, login: Login) -> str | None:
        """Return the first alias under which a known-hosts file has a key of the host; None if there is none."""
        files = self.files(login)
        return next((name for name in login.aliases if self._search((name,), files).keys), None)

    def files(self, login: Login) -> tuple[str, ...]:
        """Return the known-hosts files in order; the last is tpu-tui's own, to which keys are added."""
        own = (self._access.own_known_hosts,) if self._access.own_known_hosts else ()
        return tuple(dict.fromkeys([*self._access.known_hosts, *login.known_hosts, *own]))

    def _search(self, names: Sequence[str], files: Sequence[str]) -> TrustedKeys:
        keys: dict[bytes, asyncssh.SSHKey] = {}
        authorities: dict[bytes, asyncssh.SSHKey] = {}
        revoked: dict[bytes, asyncssh.SSHKey] = {}
        for known_hosts in filter(None, map(self._load, files if names else ())):
            for name in names:
                matched = known_hosts.match(name, "", None)
                keys.update((key.public_data, key) for key in matched[0])
                authorities.update((key.public_data, key) for key in matched[1])
                revoked.update((key.public_data, key) for key in matched[2])
        return TrustedKeys(
            tuple(keys.values()),
            tuple(authorities.values()),
            tuple(revoked.values()),
            names=tuple(names),
            files=tuple(files),
        )

    def _load(self, path: str) -> SSHKnownHosts | None:
        """Read a file; None if there is none. Raises UsageError if others can write to tpu-tui's own file."""
        try:
            status = os.stat(path)  # noqa: PTH116 - runs for each login and file; a Path takes three times as long
        except OSError:
            return None
        if path == self._access.own_known_hosts:
            file = Path(path)
            check_trusted(file, status, "the file of host keys that were accepted here", file.parent)
        stamp = (status.st_mtime_ns, status.st_size)
        cached = self._read.get(path)
        if cached is None or cached[0] != stamp:
            cached = (stamp, _parse(path))
            self._read[path] = cached
        return cached[1]


def _parse(path: str) -> SSHKnownHosts:
    """Read a known-hosts file; invalid lines are skipped, as OpenSSH does."""
    from tui.ssh.asyncssh_import import asyncssh

    known_hosts = asyncssh.import_known_hosts("")
    for line in _lines(path):
        with suppress(ValueError, UnicodeError):
            known_hosts.load(line)
    return known_hosts


def _lines(path: str) -> list[str]:
    try:
        return read_user_file(path).decode(errors="surrogateescape").split("\n")
    except OSError:
        return []


def address_name(host: str, port: int) -> str:
    """Return an address as known-hosts files write it: bare on port 22, else `[host]:port` (sshd(8))."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def host_key_name(login: Login) -> str:
    """Return the name a host's key is stored under: its alias if it has one, else its address."""
    return login.aliases[0] if login.aliases else address_name(login.host, login.port)


def add_known_host(path: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Append `name key` to a known-hosts file unless it is there already.

    The file is private, and locked while it is written, so that several processes write whole lines and none twice.
    """
    kind, base64 = key.export_public_key().decode().split()[:2]
    line = f"{name} {kind} {base64}"
    make_private(path.parent)
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, follow=True)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        if line.encode() in text.split(b"\n"):
            return
        torn = text and not text.endswith(b"\n")
        file.write((b"\n" if torn else b"") + line.encode() + b"\n")
        os.fsync(file.fileno())


def _find_key_lines(trusted: TrustedKeys) -> list[tuple[str, int]]:
    """Return where the known keys of a host are stored: file and line number, from 1."""
    from tui.ssh.asyncssh_import import asyncssh

    found = []
    for path in trusted.files:
        for number, line in enumerate(_lines(path), 1):
            with suppress(ValueError, UnicodeError):
                known_hosts = asyncssh.import_known_hosts(line)
                if any(known_hosts.match(name, "", None)[0] for name in trusted.names):
                    found.append((path, number))
    return found


def _describe_key(key: asyncssh.SSHKey) -> str:
    """Return a key's type and its SHA-256 fingerprint, as `ssh-keygen -l` prints them."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def host_key_error(worker: int | None, login: Login, trusted: TrustedKeys, key: asyncssh.SSHKey) -> SshError:
    """Return why an offered host key is not trusted, with the fingerprints of the offered and the known keys."""
    offered = _describe_key(key)
    if key in trusted.revoked:
        return errors.HOST_KEY_REVOKED.error(worker, login, offered=offered, files=", ".join(trusted.files))
    if not (trusted.keys or trusted.authorities):
        return errors.HOST_KEY_UNKNOWN.error(worker, login, offered=offered)
    known = "; ".join(map(_describe_key, trusted.keys)) or "a certificate"
    if trusted.vouched:
        remedy = "the connection may be intercepted, or the worker was recreated: list the slice again and compare"
    else:
        locations = _find_key_lines(trusted)
        lines = ", ".join(f"{path} line {number}" for path, number in locations)
        remove = "; ".join(
            f"ssh-keygen -R '{trusted.names[0]}' -f {path}" for path in dict.fromkeys(path for path, _ in locations)
        )
        remedy = f"if the worker was recreated, remove the old key ({lines}): {remove}"
    source = "Google Cloud reports" if trusted.vouched else "the known key is"
    return errors.HOST_KEY_CHANGED.error(worker, login, offered=offered, source=source, known=known, remedy=remedy)
