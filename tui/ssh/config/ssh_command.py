"""The `ssh` command for another terminal, with tpu-tui's user, key, route and host key checking."""

from __future__ import annotations

import fcntl
import os
import shlex
from pathlib import Path

from tui.pod.worker import Worker
from tui.procs.python_env import module_command
from tui.settings.home import make_private, read_user_file, replace_file
from tui.ssh.config.access import Access, address_of, login_to
from tui.ssh.errors import IAP_UNNAMED
from tui.ssh.keys.known_hosts import HostKeys, host_key_name

IAP_PIPE = "tui.ssh.transport.iap_pipe"
"""The module that ssh runs as its ProxyCommand."""
VOUCHED_FILE = "vouched_hosts"
"""A file beside tpu-tui's known_hosts: host keys from the API, in OpenSSH's format, for `ssh` to read."""


async def shell_command(worker: Worker, access: Access) -> list[str]:
    """Return the `ssh …` command line for one worker, with the API's host key if there is one.

    Through IAP, ssh starts tpu-tui's tunnel. Raises SshError for a worker whose instance name is unknown.
    """
    login = await login_to(worker, access)
    command = ["ssh", "-p", str(login.port), "-l", login.user]
    if access.identity:
        command += ["-i", access.identity, "-o", "IdentitiesOnly=yes"]
    jump = access.jump or login.jump
    if access.route == "iap":
        command += ["-o", f"ProxyCommand={_iap_command(worker, login.port, access)}"]
    elif jump:
        command += ["-J", jump]
    host_keys = HostKeys(access)
    files, alias = list(host_keys.files(login)), host_keys.alias_of(login)
    if access.own_known_hosts and worker.host_keys:
        alias = worker.host_key_alias or host_key_name(login)
        files.insert(0, str(_file_vouched(Path(access.own_known_hosts), alias, worker)))
        command += ["-o", "StrictHostKeyChecking=yes"]
    if alias:
        command += ["-o", f"HostKeyAlias={alias}"]
    command += ["-o", "UserKnownHostsFile=" + " ".join(f'"{path}"' for path in files)]
    # The name that the configuration knows: ssh applies its settings to it, as tpu-tui did.
    return [*command, address_of(worker, access.route) or login.host]


def _iap_command(worker: Worker, port: int, access: Access) -> str:
    if not worker.instance:
        raise IAP_UNNAMED.error(worker.index)
    command = [*module_command(IAP_PIPE), worker.instance, str(port), str(worker.index), access.iap_url or ""]
    return shlex.join([*command, "--", *access.token_command]).replace("%", "%%")


def _file_vouched(known_hosts: Path, alias: str, worker: Worker) -> Path:
    """Replace the lines of the alias by the API's present keys, atomically, and return the path.

    `known_hosts` is the lock, because several processes may do this at once, each for another worker.
    """
    make_private(known_hosts.parent)
    path = known_hosts.with_name(VOUCHED_FILE)
    with os.fdopen(os.open(known_hosts, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read_user_file(path).decode(errors="replace").splitlines() if path.exists() else []
        lines = [line for line in before if not line.startswith(f"{alias} ")]
        lines += [f"{alias} {key}" for key in worker.host_keys]
        with replace_file(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
    return path
