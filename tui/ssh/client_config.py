"""What OpenSSH's client configuration says about one host.

Read here where that gives what ssh(1) makes of it; what is written in ways that only ssh(1) understands, it is asked
about (`ssh -G`).
"""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tui.errors import UsageError
from tui.printable import one_line

PATIENCE = 10.0
"""Seconds that ssh(1) may take: a `Match exec` runs a program of the person's."""
_ONLY_SSH = re.compile(rb"^\s*(match|canonicalize)", re.IGNORECASE | re.MULTILINE)
"""Lines that mean more to ssh(1) than to a reader of one file: a second pass, tokens in conditions, networks."""
_NOWHERE = ("none", "/dev/null")
_USUAL_KEYS = re.compile(r"~/\.ssh/id_(rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk|xmss)")
"""What ssh(1) tells where no key is configured; we try them in an order of our own."""
_USUAL_HOSTS = re.compile(r".*/\.ssh/known_hosts2?")
_TOKEN = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class HostConfig:
    """One host's settings; None and nothing where the configuration says nothing."""

    hostname: str | None = None
    port: int | None = None
    user: str | None = None
    jump: str | None = None
    proxy: str | None = None
    """A command whose standard input and output lead to the server."""
    agent: str | None = None
    """The agent's socket; empty for none at all."""
    alias: str | None = None
    identities: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()


def read_config(path: str, host: str, port: int | None, user: str | None, local_user: str) -> HostConfig:
    """What a configuration file says about a host. Raises UsageError when it cannot be read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - once a login; a Path takes thrice as long to make
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    return _read(path, (status.st_mtime_ns, status.st_size), host, port, user, local_user)


@functools.lru_cache(maxsize=4096)
def _read(
    path: str, _stamp: tuple[int, int], host: str, port: int | None, user: str | None, local_user: str
) -> HostConfig:
    problem = "it uses what only ssh understands"
    with suppress(OSError):
        if not _ONLY_SSH.search(Path(path).read_bytes()):
            try:
                return _read_here(path, host, port, user, local_user)
            except ValueError as error:  # asyncssh's own error, and text that is not UTF-8, are such
                problem = str(error)
    return _asked_of_ssh(path, host, port, user, local_user, problem)


def _read_here(path: str, host: str, port: int | None, user: str | None, local_user: str) -> HostConfig:
    """By asyncssh's reader. Raises ValueError where it does not understand the file."""
    from asyncssh.config import SSHClientConfig

    config = SSHClientConfig.load(None, [path], False, False, False, local_user, user or (), host, port or ())

    def text(option: str) -> str | None:
        value = config.get(option)
        return str(value) if value else None

    def several(option: str) -> tuple[str, ...]:
        value = config.get(option, ())
        return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()

    if text("ProxyJump") and text("ProxyCommand"):
        raise ValueError("which of ProxyJump and ProxyCommand comes first only ssh knows")
    if any("%" in name for name in several("UserKnownHostsFile")):
        raise ValueError("tokens in UserKnownHostsFile are filled in by ssh only")
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


def _asked_of_ssh(
    path: str, host: str, port: int | None, user: str | None, local_user: str, problem: str
) -> HostConfig:
    words = ["ssh", "-G", "-T", "-F", path]
    words += ["-p", str(port)] if port else []
    words += ["-l", user] if user else []
    try:
        done = subprocess.run([*words, "--", host], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise _unreadable(path, f"ssh -G {host} took longer than {PATIENCE:g} s") from None
    except OSError:
        raise _unreadable(path, problem) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise _unreadable(path, one_line(said.splitlines()[0]) if said else problem)
    told: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        name, _, value = line.partition(" ")
        told.setdefault(name.lower(), []).append(value)
    return _of_answer(told, host, local_user)


def _of_answer(told: Mapping[str, list[str]], host: str, local_user: str) -> HostConfig:
    """Read ssh's answer, which fills in what ssh takes where nothing is configured and leaves tokens as they are."""

    def one(name: str) -> str | None:
        value = next(iter(told.get(name, [])), "")
        return value if value and value.lower() != "none" else None

    tokens = _tokens(one("hostname") or host, host, one("port") or "22", one("user") or local_user, local_user)
    tokens["k"] = one("hostkeyalias") or host
    tokens["j"] = one("proxyjump") or ""
    keys = [key for key in told.get("identityfile", []) if not _USUAL_KEYS.fullmatch(key)]
    hosts = [name for line in told.get("userknownhostsfile", []) for name in line.split()]
    agent = next(iter(told.get("identityagent", [])), None)
    proxy = one("proxycommand")
    return HostConfig(
        hostname=one("hostname"),
        port=int(one("port") or 0) or None,
        user=one("user"),
        jump=one("proxyjump"),
        proxy=_expanded(proxy, tokens) if proxy else None,
        agent=None if agent is None else _agent(_expanded(agent, tokens)),
        alias=one("hostkeyalias"),
        identities=_paths(_expanded(key, tokens) for key in keys),
        known_hosts=_paths(_expanded(name, tokens) for name in hosts if not _USUAL_HOSTS.fullmatch(name)),
    )


def _tokens(hostname: str, host: str, port: str, user: str, local_user: str) -> dict[str, str]:
    """ssh_config(5), TOKENS, those that name no connection of ssh's own."""
    here = socket.gethostname()
    return {
        "%": "%",
        "d": str(Path.home()),
        "h": hostname,
        "i": str(os.getuid()),
        "L": here.partition(".")[0],
        "l": here,
        "n": host,
        "p": port,
        "r": user,
        "u": local_user,
    }


def _expanded(text: str, tokens: Mapping[str, str]) -> str:
    known = _TOKEN.sub(lambda match: tokens.get(match[1], match[0]), text)
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), known)


def _agent(named: str) -> str:
    """An agent's socket as `IdentityAgent` names it: a path, none, or the variable that holds one."""
    if named.lower() == "none":
        return ""
    if named == "SSH_AUTH_SOCK" or named.startswith("$"):
        return os.environ.get(named.lstrip("$").strip("{}"), "")
    return str(Path(named).expanduser())


def _paths(named: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(Path(path).expanduser()) for path in named if path not in _NOWHERE)


def _unreadable(path: str, why: str) -> UsageError:
    return UsageError("the SSH configuration cannot be read", why=one_line(why), remedy=f"correct {path}")
