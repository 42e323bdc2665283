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
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tui.aio.threads import run_in_thread
from tui.errors import UsageError
from tui.text.printable import one_line

SSH_TIMEOUT_S = 10.0
"""Seconds that ssh(1) may take: a `Match exec` runs a program of the person's."""
CACHE_S = 60.0
"""Seconds for which its answer is taken again: such a program may look which network this machine is in."""
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


class _Query(NamedTuple):
    """What is asked: a file, and the host as far as somebody named port and user."""

    path: str
    host: str
    port: int | None
    user: str | None
    local_user: str


_Stamp = tuple[int, int]
"""A file's time of change and size."""
_answers: dict[_Query, tuple[float, _Stamp, HostConfig]] = {}
"""What ssh(1) answered, and when."""


def read_config(path: str, host: str, port: int | None, user: str | None, local_user: str) -> HostConfig:
    """What a configuration file says about a host. Raises UsageError when it cannot be read."""
    asked = _Query(path, host, port, user, local_user)
    found = _from_cache(asked)
    return found if isinstance(found, HostConfig) else _from_ssh(asked, found)


async def ask_config(path: str, host: str, port: int | None, user: str | None, local_user: str) -> HostConfig:
    """The same, the event loop free while ssh(1) is asked: a `Match exec` runs a program of the person's."""
    asked = _Query(path, host, port, user, local_user)
    found = _from_cache(asked)
    if isinstance(found, HostConfig):
        return found
    return await run_in_thread(f"ssh -G {host}", partial(_from_ssh, asked, found))


def _from_cache(asked: _Query) -> HostConfig | str:
    """What is read here, or was answered by ssh(1) a moment ago; else why ssh(1) is to be asked."""
    stamp, now = _stamp(asked.path), time.monotonic()
    when, answered_for, answer = _answers.get(asked, (now, stamp, None))
    if answer is not None and answered_for == stamp and now - when < CACHE_S:
        return answer
    return _read(asked, stamp)


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - once a login; a Path takes thrice as long to make
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=4096)
def _read(asked: _Query, _: _Stamp) -> HostConfig | str:
    """What the file says as far as that can be read here, else why it cannot."""
    problem = "it uses what only ssh understands"
    with suppress(OSError):
        if not _ONLY_SSH.search(Path(asked.path).read_bytes()):
            try:
                return _read_here(asked)
            except ValueError as error:  # asyncssh's own error, and text that is not UTF-8, are such
                problem = str(error)
    return problem


def _read_here(asked: _Query) -> HostConfig:
    """By asyncssh's reader. Raises ValueError where it does not understand the file."""
    from asyncssh.config import SSHClientConfig

    who = (asked.local_user, asked.user or (), asked.host, asked.port or ())
    config = SSHClientConfig.load(None, [asked.path], False, False, False, *who)

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


def _from_ssh(asked: _Query, problem: str) -> HostConfig:
    path, host = asked.path, asked.host
    stamp = _stamp(path)
    words = ["ssh", "-G", "-T", "-F", path]
    words += ["-p", str(asked.port)] if asked.port else []
    words += ["-l", asked.user] if asked.user else []
    try:
        done = subprocess.run(
            [*words, "--", host], stdin=subprocess.DEVNULL, capture_output=True, timeout=SSH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise _unreadable(path, f"ssh -G {host} took longer than {SSH_TIMEOUT_S:g} s") from None
    except OSError:
        raise _unreadable(path, problem) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise _unreadable(path, one_line(said.splitlines()[0]) if said else problem)
    told: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        name, _, value = line.partition(" ")
        told.setdefault(name.lower(), []).append(value)
    answer = _of_answer(told, host, asked.local_user)
    _answers[asked] = (time.monotonic(), stamp, answer)
    return answer


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
