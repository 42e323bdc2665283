"""Where and as whom to log in: plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Login:
    """The host, port and account of one worker, with the OpenSSH configuration applied."""

    host: str
    port: int
    user: str
    jump: str | None = None
    proxy: str | None = None
    """A command whose standard input and output lead to the host (ssh_config(5), ProxyCommand)."""
    agent: str | None = None
    """The agent socket that the configuration names; empty: use no agent."""
    aliases: tuple[str, ...] = ()
    """Names under which its host key may be stored besides the address, the most specific first."""
    identities: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()
