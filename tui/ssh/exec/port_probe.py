"""The state of a port as seen from a worker, from the answer of the worker's SSH server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.ssh.errors import quote_remote

_FAILED_AT_ONCE = "open failed"
"""OpenSSH's text when connect failed without any answer; it does not pass the errno on."""
ERRNO = re.compile(r"\[Errno (\d+)\]")
"""An errno in the text of an error."""
_PROHIBITED, _CONNECT_FAILED = 1, 2
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (the server's configuration forbids it) and SSH_OPEN_CONNECT_FAILED (RFC 4254,
section 5.1)."""
_LINUX = {
    111: "refused",
    113: "no route",
    112: "no route",
    101: "unreachable",
    100: "unreachable",
    92: "prohibited",
    110: "timed out",
    13: "denied",
    1: "denied",
}
"""Linux's errno of a failed connect; 92 (ENOPROTOOPT) is what an ICMP protocol-unreachable becomes."""
_WORDS = (
    ("refused", "refused"),
    ("no route", "no route"),
    ("host is unreachable", "no route"),
    ("host is down", "no route"),
    ("unreachable", "unreachable"),
    ("network is down", "unreachable"),
    ("protocol not available", "prohibited"),
    ("timed out", "timed out"),
    ("permission denied", "denied"),
    ("not permitted", "denied"),
    ("name or service", "name"),
    ("resolution", "name"),
    ("not known", "name"),
    ("no address", "name"),
)
_VERDICTS = {
    "refused": (
        "closed",
        "refused: reachable, but nothing listens (a firewall that rejects with port-unreachable looks the same)",
    ),
    "no route": ("filtered", "no route: the host is down, or a firewall rejects (host unreachable or prohibited)"),
    "unreachable": ("filtered", "network unreachable from this worker"),
    "prohibited": ("filtered", "a firewall rejects (protocol unreachable)"),
    "no way": ("filtered", "the worker cannot send there: it has no route, or its own firewall forbids it"),
    "timed out": ("filtered", "no answer: the host is down, or a firewall drops"),
    "denied": ("filtered", "the worker's own firewall forbids the connection"),
    "name": ("unknown", "the name does not resolve on this worker"),
}


@dataclass(frozen=True)
class PortState:
    """A port as seen from a worker: `state` is open, closed, filtered or unknown; `cause` is more exact.

    Closed means refused: no firewall blocks the port, and nothing listens yet.
    """

    state: str
    detail: str
    cause: str
    remedy: str = ""


def classify_port(code: int, words: str) -> PortState:
    """Return the port's state from a refused channel's code and text.

    OpenSSH returns strerror's text, asyncssh's server `[Errno N] …`.
    """
    if code == _PROHIBITED:
        return PortState(
            "unknown",
            "its SSH server forbids forwarding, so no port can be probed from it",
            "forbidden",
            "set AllowTcpForwarding yes (and no PermitOpen) in its sshd_config",
        )
    match = ERRNO.search(words)
    cause = _LINUX.get(int(match[1])) if match else None
    lowered = words.lower()
    cause = cause or next((cause for text, cause in _WORDS if text in lowered), None)
    if cause is None and code == _CONNECT_FAILED and lowered == _FAILED_AT_ONCE:
        cause = "no way"
    if cause is None:
        return PortState("unknown", f"the worker says: {quote_remote(words)}", "other")
    state, detail = _VERDICTS[cause]
    return PortState(state, detail, cause)
