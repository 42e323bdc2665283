"""Read logs with one section for each host, as `pssh -i`, `clush -b`, `tail -F` and others print them."""

from __future__ import annotations

import re

_PSSH = re.compile(rb"\[\d{1,6}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (?P<host>[\w.-]{1,100})(?= |$)")
"""parallel-ssh's `pssh -i`: a count, the time, the result and the host, before its output."""

_TAIL = re.compile(rb"==> (?P<host>[\w./~+=:@-]{1,200}) <==\s*$")
"""`tail` of several files: a file has another section each time that it grows."""

_ANSIBLE = re.compile(rb"(?P<host>[\w.-]{1,100}) \| (?:CHANGED|SUCCESS|FAILED) \| rc=-?\d{1,5} >>\s*$")
"""A command that ansible ran on each host."""

_HEADERS = (_PSSH, _TAIL, _ANSIBLE)

_RULE = re.compile(rb"-{10,80}\s*")
_HOSTS = re.compile(rb"(?P<hosts>[\w.,\[\]-]{1,2000})(?: \(\d{1,6}\))?\s*")
"""ClusterShell's and pdsh's gathered output: hosts with the same output, between two rules."""


class Sections:
    """Tracks which host's section each line of a log belongs to."""

    def __init__(self) -> None:
        self.host: str | None = None
        """The host (or set of hosts) whose lines follow; None before the first header."""
        self._before: tuple[bytes, bytes] = (b"", b"")

    @staticmethod
    def begin_with(line: bytes) -> bool:
        """Return whether a log that begins with this line has sections."""
        return _header(line) is not None or _RULE.fullmatch(line) is not None

    def take(self, line: bytes) -> bool:
        """Read the next line; return whether it is part of a header, judging by the lines before it."""
        rule, hosts = self._before
        self._before = (hosts, line)
        match = _header(line)
        if match is not None:
            self.host = match["host"].decode()
            return True
        if _RULE.fullmatch(line) is None:
            # It is not known yet whether a second rule follows; one word after a rule is most likely a host.
            return _RULE.fullmatch(hosts) is not None and _HOSTS.fullmatch(line) is not None
        named = _HOSTS.fullmatch(hosts) if _RULE.fullmatch(rule) is not None else None
        if named is not None:
            self.host = named["hosts"].decode()
            self._before = (b"", b"")
        return True


def _header(line: bytes) -> re.Match[bytes] | None:
    return next((match for match in (header.match(line) for header in _HEADERS) if match is not None), None)
