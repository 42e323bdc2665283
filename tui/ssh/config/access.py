"""The account, keys and routes of SSH logins, as plain data that can be passed to another process."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tui.errors import TpuTuiError
from tui.pod.worker import SSH_PORT, Worker
from tui.procs.python_env import module_command
from tui.ssh.config.openssh_config import local_user, read_config
from tui.ssh.errors import NO_ADDRESS, UNSAFE_NAME
from tui.ssh.host_login import Login

if TYPE_CHECKING:
    from tui.settings import Settings

GOOGLE_KEY = "google_compute_engine"
GOOGLE_KNOWN_HOSTS = "google_compute_known_hosts"
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
TOKEN_COMMAND = module_command("tui.cloud.token")
"""The command that prints an access token of the application default credentials."""
STRICT = "strict"
ACCEPT_NEW = "accept-new"
_HOST = re.compile(r"(?!-)[\w.:%-]+")
_ACCOUNT = re.compile(r"(?!-)[\w.@+$-]+")
THRESHOLD_NAMES = ("connect_timeout", "login_timeout", "keepalive", "keepalive_count", "handshakes", "sessions")


class Prompter(Protocol):
    """Asks the user questions, in a terminal or in a dialog of the console."""

    async def secret(self, text: str) -> str | None:
        """Return a passphrase or one-time code; None when the person declines."""

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        """Return whether the person trusts an unknown host key from now on."""


@dataclass(frozen=True)
class ClientKey:
    """One decrypted private key in OpenSSH's format, with its certificate if it has one."""

    path: str
    private: str = field(repr=False)
    certificate: str | None = None


@dataclass(frozen=True)
class Access:
    """Everything needed to log in to the workers of one slice, host key checking included.

    `identity` is the key that the user named, `identities` are tried if they exist; paths are absolute. `client_keys`
    are the decrypted keys after `client_keys.unlock` has read them, None before. Times in seconds.
    """

    user: str | None = None
    identity: str | None = None
    identities: tuple[str, ...] = ()
    agent: str | None = None
    port: int | None = None
    known_hosts: tuple[str, ...] = ()
    own_known_hosts: str | None = None
    host_keys: str = STRICT
    route: str = "external"
    jump: str | None = None
    config: str | None = None
    """An OpenSSH client configuration; nothing in it can switch host key checking off."""
    client_keys: tuple[ClientKey, ...] | None = field(default=None, repr=False)
    connect_timeout: float = 15.0
    login_timeout: float = 30.0
    keepalive: float = 15.0
    keepalive_count: int = 3
    handshakes: int = 16
    """Simultaneous logins: OpenSSH drops connections at random beyond its MaxStartups (10:30:100)."""
    sessions: int = 8
    """Simultaneous commands over one connection: OpenSSH's MaxSessions is 10."""
    slice: str | None = None
    """The slice of the workers, for the remedies in messages."""
    os_login: bool = False
    """Whether the workers use OS Login, for the remedies in messages."""
    iap_url: str | None = None
    """The address of IAP's tunnel service, if it is not Google's."""
    token_command: tuple[str, ...] = ()
    """A command that prints the access token for IAP; empty: no token."""

    def to_json(self) -> dict[str, Any]:
        """Return a document for a pipe to another process; it holds private keys, so never write it to a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Access:
        """Read what `to_json` returned; unknown fields are ignored. Raises ValueError for any other document."""
        try:
            values = {item.name: document[item.name] for item in fields(cls) if item.name in document}
            for name in ("identities", "known_hosts", "token_command"):
                values[name] = tuple(values.get(name, ()))
            if values.get("client_keys") is not None:
                values["client_keys"] = tuple(ClientKey(**key) for key in values["client_keys"])
            return cls(**values)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not an access: {error!r}") from error


def access_from(settings: Settings) -> Access:
    """Return the access from settings, the agent, `~/.ssh` and gcloud's conventions. No file is read."""
    ssh = Path("~/.ssh").expanduser()
    config = ssh / "config"
    configured = tuple(map(str, settings.known_hosts))
    usual = (str(ssh / GOOGLE_KNOWN_HOSTS), str(ssh / "known_hosts"), "/etc/ssh/ssh_known_hosts")
    numbers: dict[str, Any] = {}
    for name in THRESHOLD_NAMES:
        if name in settings.thresholds:
            value = float(settings.thresholds[name])
            numbers[name] = value if name.endswith(("timeout", "keepalive")) else max(1, int(value))
    return Access(
        user=settings.user,
        identity=str(settings.identity) if settings.identity else None,
        identities=tuple(str(ssh / name) for name in (GOOGLE_KEY, *DEFAULT_KEYS)),
        agent=os.environ.get("SSH_AUTH_SOCK") or None,
        port=settings.port,
        known_hosts=configured or usual,
        own_known_hosts=str(settings.own_known_hosts),
        host_keys=settings.host_keys,
        route=settings.route,
        jump=settings.jump,
        config=str(config) if os.access(config, os.R_OK) else None,
        iap_url=settings.endpoints.get("iap"),
        token_command=TOKEN_COMMAND if settings.route == "iap" else (),
        **numbers,
    )


def address_of(worker: Worker, route: str) -> str | None:
    """Return the worker's address for a route, None if it has none."""
    if route in ("internal", "iap"):
        return worker.internal_ip or worker.external_ip or worker.hostname
    return worker.external_ip or worker.internal_ip or worker.hostname


async def login_for(
    host: str, port: int | None, user: str | None, access: Access, *, alias: str | None = None
) -> Login:
    """Return the login for one host, by the OpenSSH configuration; explicit values win over it.

    `port` and `user` are None if not given. Raises UsageError for a configuration that cannot be read.
    """
    if access.config is None:
        return Login(host, port or SSH_PORT, user or local_user(), aliases=(alias,) if alias else ())
    config = await read_config(access.config, host, port, user)
    aliases = tuple(dict.fromkeys(name for name in (alias, config.alias) if name))
    real = config.hostname or host
    if real != host and not aliases:
        aliases = (host,)
    return Login(
        host=real,
        port=config.port or SSH_PORT,
        user=config.user or local_user(),
        jump=config.jump,
        proxy=config.proxy,
        agent=config.agent,
        aliases=aliases,
        identities=config.identities,
        known_hosts=config.known_hosts,
    )


async def login_to(worker: Worker, access: Access) -> Login:
    """Return the login for this worker. Raises SshError when it has no address, or an unsafe name.

    An API or a record of a run names hosts, accounts and aliases. They become arguments of ssh, words of the user's
    ProxyCommand and lines of known-hosts files, so ssh(1) too refuses names with other characters.
    """
    host = address_of(worker, access.route)
    if host is None:
        raise NO_ADDRESS.error(worker.index)
    for name, form in ((host, _HOST), (worker.host_key_alias, _HOST), (worker.user, _ACCOUNT)):
        if name and not form.fullmatch(name):
            raise UNSAFE_NAME.error(worker.index, host=name)
    port = access.port or (worker.port if worker.port != SSH_PORT else None)
    return await login_for(host, port, worker.user or access.user, access, alias=worker.host_key_alias)


async def logins_to(workers: Iterable[Worker], access: Access) -> list[Login | TpuTuiError]:
    """Return the login for each worker, or why it has none; at most `access.handshakes` are found at once."""
    turns = asyncio.Semaphore(access.handshakes)

    async def find(worker: Worker) -> Login | TpuTuiError:
        async with turns:
            try:
                return await login_to(worker, access)
            except TpuTuiError as error:
                return error

    return await asyncio.gather(*map(find, workers))
