"""OpenSSH's client configuration for one host.

Plain files are read here. Files with directives that only ssh(1) can evaluate are evaluated by `ssh -G`.
"""

from __future__ import annotations

import functools
import getpass
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tui.aio.threads import run_in_thread
from tui.errors import UsageError
from tui.settings.home import read_user_file
from tui.text.printable import one_line

SSH_TIMEOUT_S = 10.0
"""Seconds that `ssh -G` may take: a `Match exec` runs one of the user's programs."""
CACHE_S = 60.0
"""Seconds for which an answer of `ssh -G` is reused: a program of `Match exec` may test this machine's network."""
_ONLY_SSH = re.compile(rb"^\s*(match|canonicalize)", re.IGNORECASE | re.MULTILINE)
"""Directives that only ssh(1) can evaluate: conditions, a second pass, name lookups."""
_NOWHERE = ("none", "/dev/null")
_USUAL_KEYS = re.compile(r"~/\.ssh/id_(rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk|xmss)")
"""The keys `ssh -G` lists when none is configured; tpu-tui tries them in its own order."""
_USUAL_HOSTS = re.compile(r".*/\.ssh/known_hosts2?")
_TOKEN = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class HostConfig:
    """One host's settings; None or empty where the configuration does not set them."""

    hostname: str | None = None
    port: int | None = None
    user: str | None = None
    jump: str | None = None
    proxy: str | None = None
    """A command whose standard input and output lead to the server."""
    agent: str | None = None
    """The agent's socket; empty: use no agent."""
    alias: str | None = None
    identities: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()


class _Query(NamedTuple):
    """A configuration file and a host, with port and user if they were given."""

    path: str
    host: str
    port: int | None
    user: str | None
    local_user: str


_Stamp = tuple[int, int]
"""A file's modification time (ns) and size."""
_answers: dict[_Query, tuple[float, _Stamp, HostConfig]] = {}
"""Answers of `ssh -G`, with the time and the file's stamp."""


def local_user() -> str:
    """Return the user name on this machine, which gcloud uses on the workers too."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "root"


async def read_config(path: str, host: str, port: int | None = None, user: str | None = None) -> HostConfig:
    """Return a configuration file's settings for a host. Raises UsageError when it cannot be read."""
    query = _Query(path, host, port, user, local_user())
    cached = _from_cache(query)
    if isinstance(cached, HostConfig):
        return cached
    return await run_in_thread(f"ssh -G {host}", partial(_from_ssh, query, cached))


def _from_cache(query: _Query) -> HostConfig | str:
    """Return the settings from the file or from a cached answer; otherwise the reason to run `ssh -G`."""
    stamp, now = _stamp(query.path), time.monotonic()
    when, answered_for, answer = _answers.get(query, (now, stamp, None))
    if answer is not None and answered_for == stamp and now - when < CACHE_S:
        return answer
    return _read(query, stamp)


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - runs for each login; a Path takes three times as long
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=4096)
def _read(query: _Query, _: _Stamp) -> HostConfig | str:
    """Return the file's settings; the reason to run `ssh -G` if only ssh can evaluate the file."""
    try:
        content = read_user_file(query.path)
    except OSError as error:
        raise _unreadable(query.path, error.strerror or str(error)) from None
    if _ONLY_SSH.search(content):
        return "it uses directives that only ssh understands"
    try:
        return _read_here(query)
    except (OSError, ValueError) as error:  # includes asyncssh's own error and text that is not UTF-8
        return str(error)


def _read_here(query: _Query) -> HostConfig:
    """Read the file with asyncssh. Raises ValueError for a file that only ssh can evaluate."""
    from tui.ssh.asyncssh_import import asyncssh

    target = (query.local_user, query.user or (), query.host, query.port or ())
    config = asyncssh.config.SSHClientConfig.load(None, [query.path], False, False, False, *target)

    def text(option: str) -> str | None:
        value = config.get(option)
        return str(value) if value else None

    def several(option: str) -> tuple[str, ...]:
        value = config.get(option, ())
        return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()

    if text("ProxyJump") and text("ProxyCommand"):
        raise ValueError("only ssh knows which of ProxyJump and ProxyCommand comes first")
    if any("%" in name for name in several("UserKnownHostsFile")):
        raise ValueError("only ssh expands tokens in UserKnownHostsFile")
    agent = config.get("IdentityAgent", ())
    return HostConfig(
        hostname=text("Hostname"),
        port=int(text("Port") or 0) or None,
        user=text("User"),
        jump=text("ProxyJump"),
        proxy=(text("ProxyCommand") or "").lstrip("= ") or None,
        agent=None if agent == () else _agent(str(agent or "none")),
        alias=text("HostKeyAlias"),
        identities=_paths(several("IdentityFile")),
        known_hosts=_paths(several("UserKnownHostsFile")),
    )


def _from_ssh(query: _Query, problem: str) -> HostConfig:
    path, host = query.path, query.host
    stamp = _stamp(path)
    command = ["ssh", "-G", "-T", "-F", path]
    command += ["-p", str(query.port)] if query.port else []
    command += ["-l", query.user] if query.user else []
    try:
        process = subprocess.run(
            [*command, "--", host], stdin=subprocess.DEVNULL, capture_output=True, timeout=SSH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise _unreadable(path, f"ssh -G {host} took longer than {SSH_TIMEOUT_S:g} s") from None
    except OSError:
        raise _unreadable(path, problem) from None
    if process.returncode:
        message = process.stderr.decode("utf-8", "replace").strip()
        raise _unreadable(path, one_line(message.splitlines()[0]) if message else problem)
    options: dict[str, list[str]] = {}
    for line in process.stdout.decode("utf-8", "surrogateescape").splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name.lower(), []).append(value)
    answer = _parse_answer(options, host, query.local_user)
    _answers[query] = (time.monotonic(), stamp, answer)
    return answer


def _parse_answer(options: Mapping[str, list[str]], host: str, local_user: str) -> HostConfig:
    """Read the answer of `ssh -G`, which includes ssh's defaults and unexpanded tokens."""

    def first_value(name: str) -> str | None:
        value = next(iter(options.get(name, [])), "")
        return value if value and value.lower() != "none" else None

    names = ("hostname", "port", "user", "proxyjump", "hostkeyalias", "proxycommand")
    hostname, port, user, jump, alias, proxy = map(first_value, names)
    this_host = socket.gethostname()
    tokens = {  # ssh_config(5), TOKENS, except those about ssh's own connection
        "%": "%",
        "d": str(Path.home()),
        "h": hostname or host,
        "i": str(os.getuid()),
        "j": jump or "",
        "k": alias or host,
        "L": this_host.partition(".")[0],
        "l": this_host,
        "n": host,
        "p": port or "22",
        "r": user or local_user,
        "u": local_user,
    }
    keys = [key for key in options.get("identityfile", []) if not _USUAL_KEYS.fullmatch(key)]
    hosts = [name for line in options.get("userknownhostsfile", []) for name in line.split()]
    agent = next(iter(options.get("identityagent", [])), None)
    return HostConfig(
        hostname=hostname,
        port=int(port or 0) or None,
        user=user,
        jump=jump,
        proxy=_expand(proxy, tokens) if proxy else None,
        agent=None if agent is None else _agent(_expand(agent, tokens)),
        alias=alias,
        identities=_paths(_expand(key, tokens) for key in keys),
        known_hosts=_paths(_expand(name, tokens) for name in hosts if not _USUAL_HOSTS.fullmatch(name)),
    )


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    expanded = _TOKEN.sub(lambda match: tokens.get(match[1], match[0]), text)
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), expanded)


def _agent(value: str) -> str:
    """Return the socket that `IdentityAgent` names: a path, a variable that holds one, or `none` (empty)."""
    if value.lower() == "none":
        return ""
    if value == "SSH_AUTH_SOCK" or value.startswith("$"):
        return os.environ.get(value.lstrip("$").strip("{}"), "")
    return str(Path(value).expanduser())


def _paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(Path(path).expanduser()) for path in paths if path not in _NOWHERE)


def _unreadable(path: str, why: str) -> UsageError:
    return UsageError("the SSH configuration cannot be read", why=one_line(why), remedy=f"correct {path}")
