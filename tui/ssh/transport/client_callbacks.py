"""asyncssh's side of a connection: what the server offers, says and asks while it lets us in, and that it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh

from tui.ssh.config.access import Prompter
from tui.ssh.transport._compat_asyncssh import FastConnection
from tui.text.printable import one_line


class LoginClient(asyncssh.SSHClient):
    """asyncssh's side of one login: judges the host key, remembers what the server said, tells the end."""

    def __init__(self, believes: Callable[[asyncssh.SSHKey], bool], prompter: Prompter | None, name: str) -> None:
        self._believes = believes
        self._prompter = prompter
        self._name = name
        self.connection: asyncssh.SSHClientConnection | None = None
        self.offered: asyncssh.SSHKey | None = None
        self.asking = 0
        self.banner = ""
        """The last line that the server showed before it let us in: why it will not, at times."""
        self.remark = ""
        """What it said and asked nothing with it: PAM tells so why it lets nobody in."""
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Keep the connection: only it knows afterwards whether the server spoke SSH."""
        self.connection = conn

    def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
        """Called for a key that is not among the trusted ones."""
        self.offered = key
        return self._believes(key)

    def auth_banner_received(self, msg: str, _lang: str) -> None:
        """Keep what the server shows to whoever logs in."""
        lines = [line for line in msg.splitlines() if any(map(str.isalnum, line))]
        self.banner = one_line(lines[-1]) if lines else self.banner

    def kbdint_auth_requested(self) -> str | None:
        """Answer one-time codes where somebody can be asked, and the server did not only say why it will not."""
        return None if self._prompter is None or self.remark else ""

    async def kbdint_challenge_received(
        self, _name: str, instructions: str, _lang: str, prompts: Any
    ) -> list[str] | None:
        """Hand the server's questions to the person; what it says and asks nothing is kept."""
        if self._prompter is None:
            return None
        said = one_line(instructions)
        if not prompts:
            self.remark = said or self.remark
        answers: list[str] = []
        self.asking += 1
        try:
            for prompt, _echo in prompts:
                answer = await self._prompter.secret(f"{self._name} asks: {f'{said} {one_line(prompt)}'.strip()} ")
                if answer is None:
                    return None
                answers.append(answer)
        finally:
            self.asking -= 1
        return answers

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that the connection is gone."""
        if not self.ended.done():
            self.ended.set_result(exc)

    @property
    def wanted(self) -> tuple[str, ...]:
        """What the server would let us in with instead of the keys it refused; nothing where another key would do."""
        wanted = self.connection.wanted if isinstance(self.connection, FastConnection) else ()
        return () if {"publickey", "none"} & set(wanted) else wanted

    @property
    def has_received(self) -> bool:
        """Whether the server said something that is no greeting."""
        return isinstance(self.connection, FastConnection) and self.connection.has_received

    @property
    def untried(self) -> int:
        """How many of our keys the server never heard of."""
        return self.connection.untried if isinstance(self.connection, FastConnection) else 0

    @property
    def unsigned(self) -> int:
        """How many keys that the server would have taken nobody signed with."""
        return self.connection.unsigned if isinstance(self.connection, FastConnection) else 0

    @property
    def encrypted(self) -> bool:
        """Whether the key exchange came to its end."""
        return self.connection is not None and bool(self.connection.get_extra_info("send_cipher"))

    @property
    def greeted(self) -> bool:
        """Whether the server said that it speaks SSH."""
        return self.connection is not None and bool(self.connection.get_extra_info("server_version"))
