"""One worker of the local pod: an SSH server in its own process, with a home, a host key and an environment."""

from __future__ import annotations

import asyncio
import errno
import getpass
import ipaddress
import os
import re
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tui.localpod.host.host_spec import HostSpec
from tui.localpod.host.ssh_session import SshSession
from tui.localpod.host.startup_script import StartupUnit
from tui.ssh.asyncssh_import import asyncssh

_OS_LOGIN_NAME = re.compile(r"[a-z0-9_]+")
MAX_SESSIONS = 10
"""Sessions per connection, sshd_config(5) MaxSessions."""
LOGIN_TIMEOUT_S = 120
"""sshd_config(5) LoginGraceTime."""
KEY_EXCHANGES = ("curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256")
"""The fast exchanges: the post-quantum exchange would cost 64 ms of CPU per connection."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def login_shell() -> str:
    """Return the shell of an interactive login."""
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def environment_of(spec: HostSpec) -> dict[str, str]:
    """Return the environment of every command on the worker; only LANG comes from the parent process."""
    user = getpass.getuser()
    return {
        "HOME": str(spec.home),
        "USER": user,
        "LOGNAME": user,
        "SHELL": login_shell(),
        "HOSTNAME": spec.hostname,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PATH": f"{spec.programs}:{_machine_path()}",
        "TPU_TUI_DEVICES": ":".join(map(str, spec.devices)),
        "TPU_TUI_LOCKFILE": str(Path(spec.directory) / "libtpu_lockfile"),
        **spec.environment,
        **spec.mark.environment,
    }


def _machine_path() -> str:
    return f"{Path(sys.executable).parent}:{SYSTEM_PATH}"


def prepare_home(spec: HostSpec) -> asyncssh.SSHKey:
    """Create home, devices and host key if they do not exist yet; return the host key."""
    directory = Path(spec.directory)
    for name in ("home/.ssh", "etc", "dev"):
        (directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    for device in spec.devices:
        device.touch(mode=0o600)
    keys = spec.home / ".ssh" / "authorized_keys"
    if not keys.exists():
        keys.write_text(spec.authorized_key + "\n")
        path = environment_of(spec)["PATH"]
        prompt = shlex.quote(rf"\u@{spec.hostname}:\w\$ " if login_shell().endswith("bash") else f"{spec.hostname}$ ")
        # a login shell reads /etc/profile first, which on Debian sets another PATH
        (spec.home / ".profile").write_text(f"export PATH={shlex.quote(path)}\nPS1={prompt}\n")
    host_key = directory / "etc" / "ssh_host_ed25519_key"
    if not host_key.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment=spec.hostname)
        host_key.touch(mode=0o600)
        key.write_private_key(host_key)
    return asyncssh.read_private_key(host_key)


class WorkerServer(asyncssh.SSHServer):
    """One connection to the worker: public keys only, `MAX_SESSIONS` sessions, forwarding from its address."""

    def __init__(self, spec: HostSpec) -> None:
        self._spec = spec
        self._sessions = 0
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection of a new client."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Accept the current keys of the home and the metadata: keys can be added while the worker runs."""
        files: tuple[Path, ...] = ()
        if username == getpass.getuser():
            files = (self._spec.home / ".ssh" / "authorized_keys", self._spec.metadata_keys)
        elif _OS_LOGIN_NAME.fullmatch(username):
            files = (self._spec.os_login_keys / username,)
        if self._connection is not None and files:
            self._connection.set_authorized_keys([str(file) for file in files if file.exists()])
        return True

    def session_requested(self) -> SshSession:
        """Return a new session. Raises ChannelOpenError if there are too many."""
        if self._sessions >= MAX_SESSIONS:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self._sessions += 1
        return SshSession(str(self._spec.home), login_shell(), self._environment(), self._session_ended)

    def _session_ended(self) -> None:
        self._sessions -= 1

    def _environment(self) -> dict[str, str]:
        assert self._connection is not None
        client = self._connection.get_extra_info("peername")
        server = self._connection.get_extra_info("sockname")
        return environment_of(self._spec) | {
            "SSH_CLIENT": f"{client[0]} {client[1]} {server[1]}",
            "SSH_CONNECTION": f"{client[0]} {client[1]} {server[0]} {server[1]}",
        }

    def connection_requested(
        self,
        dest_host: str,
        dest_port: int,
        orig_host: str,  # noqa: ARG002 - asyncssh's names
        orig_port: int,  # noqa: ARG002
    ) -> Awaitable[Any]:
        """Open a TCP connection from this worker. A failure is reported with the text of its errno, as by sshd."""
        return self._forward(dest_host, dest_port)

    async def _forward(self, host: str, port: int) -> asyncssh.forward.SSHForwarder:
        loop = asyncio.get_running_loop()
        local = (self._spec.address, 0) if _is_loopback(host) else None
        try:
            _, peer = await loop.create_connection(asyncssh.forward.SSHForwarder, host, port, local_addr=local)
        except socket.gaierror as error:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, error.strerror or "unknown host") from None
        except OSError as error:
            why = os.strerror(error.errno or errno.ECONNREFUSED)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, why) from None
        return asyncssh.forward.SSHForwarder(peer)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.version == 4 and address.is_loopback


async def serve_worker(spec: HostSpec, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve the worker until the process is killed. `ready` gets the public host key once logins work.

    The startup script runs while users can already log in, as on a real machine.
    """
    key = prepare_home(spec)
    os.chdir(spec.home)
    startup = StartupUnit(spec)
    startup.begin(_machine_path())
    await asyncssh.listen(
        sock=listener,
        server_factory=lambda: WorkerServer(spec),
        server_host_keys=[key],
        encoding=None,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        kex_algs=KEY_EXCHANGES,
        compression_algs=["none"],
        login_timeout=LOGIN_TIMEOUT_S,
        agent_forwarding=False,
    )
    ready(" ".join(key.export_public_key("openssh").decode().split()[:2]))
    await startup.run(environment_of(spec))
    await asyncio.Event().wait()
