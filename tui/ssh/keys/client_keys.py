"""The keys to log in with: the agent's first, then files, decrypted once and held in memory."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui.aio.timeouts import within
from tui.errors import OutOfReachError, UsageError
from tui.settings.home import read_user_file
from tui.ssh.config.access import Access, ClientKey, Prompter
from tui.ssh.config.openssh_config import read_config

if TYPE_CHECKING:
    import asyncssh

PASSPHRASE_TRIES = 3
"""Wrong passphrases after which a key is skipped, as in ssh(1)."""
AGENT_TIMEOUT_S = 5.0
_FEW_AGENT_KEYS = 4
"""OpenSSH hangs up after six refused keys (MaxAuthTries): a crowded agent must not hide gcloud's key."""
_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_OPENSSH_PLAIN = b"openssh-key-v1\0\0\0\0\x04none"
_PLAIN_PEM = (b"-----BEGIN RSA PRIVATE KEY-----", b"-----BEGIN EC PRIVATE KEY-----")
_NEEDS_PASSPHRASE = "Passphrase must be specified"


@dataclass(frozen=True)
class _LoadedKey:
    """A decrypted key, its certificates, and the pairs to try: certificates first."""

    key: asyncssh.SSHKey
    certificates: list[asyncssh.SSHCertificate]
    pairs: list[asyncssh.SSHKeyPair]

    @classmethod
    def of(cls, key: asyncssh.SSHKey, certificates: list[asyncssh.SSHCertificate]) -> _LoadedKey:
        """Return the key with the certificates that belong to it, as ssh(1) does."""
        from tui.ssh.asyncssh_import import asyncssh

        own = [certificate for certificate in certificates if certificate.key.public_data == key.public_data]
        pairs = [pair for certificate in own for pair in asyncssh.load_keypairs((key, certificate))]
        return cls(key, own, [*pairs, *asyncssh.load_keypairs(key)])


class ClientKeys:
    """The client keys of one fleet, read once for all connections; `locked` lists the files still encrypted."""

    def __init__(self, access: Access, prompter: Prompter | None = None, more: Iterable[str] = ()) -> None:
        self._access = access
        self._prompter = prompter
        self._more = tuple(more)
        self._lock = asyncio.Lock()
        self._loaded = False
        self._declined = False
        self._agent: asyncssh.SSHAgentClient | None = None
        self._agent_pairs: list[asyncssh.SSHKeyPair] = []
        self._named: set[bytes | None] = set()
        """Public halves of the keys that the configuration names: of the agent's keys, these are tried first."""
        self._files: dict[str, _LoadedKey] = {}
        self.locked: list[str] = []

    async def load(self) -> None:
        """Read the agent and the key files; later calls return at once.

        Raises UsageError when the key named by the user cannot be read, OutOfReachError when it is encrypted and
        there is no prompter.
        """
        async with self._lock:
            if self._loaded:
                return
            await self._read_agent()
            if len(self._agent_pairs) > 1:
                self._named = {_public_half(path) for path in self._more}
            if self._access.client_keys is None:
                self._read_files()
                if self.locked and (self._access.identity in self.locked or not (self._agent_pairs or self._files)):
                    await self._ask(self.locked[:1])
            else:
                for key in self._access.client_keys:
                    self._take(key)
            self._loaded = True

    @property
    def count(self) -> int:
        """The number of decrypted key files."""
        return len(self._files)

    async def unlock_more(self, seen: int) -> bool:
        """Ask once for the passphrases of the encrypted keys. Return whether more than `seen` are decrypted now."""
        async with self._lock:
            if self._prompter is not None and self.locked and self.count == seen and not self._declined:
                await self._ask(list(self.locked))
                self._declined = bool(self.locked)
            return self.count > seen

    def candidates(self) -> list[asyncssh.SSHKeyPair]:
        """Return copies of the keys in the order to try, for one connection: asyncssh changes keys per server."""
        return [copy.copy(pair) for pair in self._in_order()]

    def _in_order(self) -> list[asyncssh.SSHKeyPair]:
        named = self._access.identity
        by_file = {path: loaded.pairs for path, loaded in self._files.items()}
        public = {loaded.key.public_data for loaded in self._files.values()}
        from_agent = [pair for pair in self._agent_pairs if pair.public_data not in public]
        first = by_file.pop(named, []) if named else []
        if named and not first:
            public_key = _public_half(named)
            first = [pair for pair in from_agent if pair.public_data == public_key]
            from_agent = [pair for pair in from_agent if pair.public_data != public_key]
        files = [pair for pairs in by_file.values() for pair in pairs]
        from_agent.sort(key=lambda pair: pair.public_data not in self._named)
        if len(from_agent) > _FEW_AGENT_KEYS:
            return [*first, *files[:1], *from_agent, *files[1:]]
        return [*first, *from_agent, *files]

    @property
    def access(self) -> Access:
        """The access with the keys decrypted so far, to pass to another process."""
        if not self._loaded:
            return self._access
        return replace(
            self._access,
            client_keys=tuple(
                ClientKey(
                    path,
                    loaded.key.export_private_key().decode(),
                    "".join(certificate.export_certificate().decode() for certificate in loaded.certificates) or None,
                )
                for path, loaded in self._files.items()
            ),
        )

    def close(self) -> None:
        """Close the connection to the agent."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    async def _read_agent(self) -> None:
        if not self._access.agent:
            return
        from tui.ssh.asyncssh_import import asyncssh

        with suppress(OSError, ValueError, asyncio.TimeoutError, asyncssh.Error):
            self._agent = await within(asyncssh.connect_agent(self._access.agent), AGENT_TIMEOUT_S)
            if self._agent is not None:
                self._agent_pairs = list(await within(self._agent.get_keys(), AGENT_TIMEOUT_S))

    def _read_files(self) -> None:
        named = self._access.identity
        agent_keys = {pair.public_data for pair in self._agent_pairs}
        for path in dict.fromkeys(([named] if named else []) + [*self._more, *self._access.identities]):
            is_named, exists = path == named, Path(path).exists()
            in_agent = (is_named or exists) and _public_half(path) in agent_keys
            if is_named and not exists and not in_agent:
                raise UsageError("no such key file", why=path, remedy="give `--identity` the path of a private key")
            if exists and (is_named or not in_agent):
                self._read_file(path, is_named, in_agent)

    def _read_file(self, path: str, is_named: bool, in_agent: bool) -> None:
        from tui.ssh.asyncssh_import import asyncssh

        try:
            data = read_user_file(path)
            self._files[path] = _LoadedKey.of(asyncssh.import_private_key(data), _certificates(path))
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            if in_agent:
                return
            if _NEEDS_PASSPHRASE in str(error) or isinstance(error, asyncssh.KeyEncryptionError):
                self.locked.append(path)
            elif is_named:
                raise UsageError("this is not a private key", why=f"{path}: {error}") from error
        except OSError as error:
            if is_named:
                raise UsageError("the key file cannot be read", why=f"{path}: {error.strerror}") from error

    def _take(self, key: ClientKey) -> None:
        from tui.ssh.asyncssh_import import asyncssh

        certificates = list(asyncssh.load_certificates(key.certificate.encode())) if key.certificate else []
        self._files[key.path] = _LoadedKey.of(asyncssh.import_private_key(key.private), certificates)

    async def _ask(self, paths: list[str]) -> None:
        from tui.ssh.asyncssh_import import asyncssh

        if self._prompter is None:
            raise OutOfReachError(
                "the SSH key is encrypted, and there is no terminal to ask for its passphrase",
                why=paths[0],
                remedy=f"ssh-add {paths[0]}",
            )
        for path in paths:
            for attempt in range(PASSPHRASE_TRIES):
                again = "wrong passphrase, try again: " if attempt else ""
                secret = await self._prompter.secret(f"{again}Passphrase for {path}: ")
                if secret is None:
                    break
                with suppress(asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError):
                    data = await asyncio.to_thread(read_user_file, path)
                    # bcrypt takes 0.1 s and more by design, so it runs in a thread.
                    key = await asyncio.to_thread(asyncssh.import_private_key, data, secret)
                    self._files[path] = _LoadedKey.of(key, _certificates(path))
                    self.locked.remove(path)
                    break


def _certificates(path: str) -> list[asyncssh.SSHCertificate]:
    """Return the certificates in the file beside a key (`KEY-cert.pub`), as ssh-keygen writes it."""
    from tui.ssh.asyncssh_import import asyncssh

    with suppress(OSError, asyncssh.KeyImportError, ValueError):
        return list(asyncssh.load_certificates(read_user_file(f"{path}-cert.pub")))
    return []


def _public_half(path: str) -> bytes | None:
    key = public_key_of(path)
    return None if key is None else key.public_data


def public_key_of(path: str) -> asyncssh.SSHKey | None:
    """Return the public key of a key file, from `KEY.pub` beside it or from the file itself."""
    from tui.ssh.asyncssh_import import asyncssh

    for candidate in (f"{path}.pub", path):
        with suppress(OSError, asyncssh.KeyImportError, ValueError):
            return asyncssh.import_public_key(read_user_file(candidate))
    return None


def has_unencrypted_key(access: Access) -> bool:
    """Return whether the key named by the user, or else one of the default keys, exists unencrypted.

    Files are read without asyncssh; a doubtful one counts as encrypted.
    """
    paths = [access.identity] if access.identity else list(access.identities)
    return access.client_keys is None and any(_is_open(Path(path)) for path in paths)


def _is_open(path: Path) -> bool:
    """Return whether a file is a private key without a passphrase, by OpenSSH's PROTOCOL.key or PEM's headers."""
    try:
        head, *lines = read_user_file(path).strip().split(b"\n")
        if head.strip() in _PLAIN_PEM:
            return not any(b"ENCRYPTED" in line for line in lines)
        return head.strip() == _OPENSSH and base64.b64decode(b"".join(lines[:-1])).startswith(_OPENSSH_PLAIN)
    except (OSError, ValueError):
        return False


async def unlock(access: Access, prompter: Prompter | None = None) -> Access:
    """Return the access with its key files read and decrypted, for a process without a terminal.

    Raises OutOfReachError (naming `ssh-add`) when a passphrase is needed and there is no prompter, UsageError when
    the file named by the user is not a key.
    """
    if access.config is not None:
        agent = (await read_config(access.config, "*")).agent
        access = access if agent is None else replace(access, agent=agent or None)
    keys = ClientKeys(access, prompter)
    try:
        await keys.load()
        return keys.access
    finally:
        keys.close()
