"""asyncssh's callbacks for one connection: host key, banner, questions during the login, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tui.ssh.asyncssh_import import asyncssh
from tui.ssh.config.access import Prompter
from tui.ssh.transport._compat_asyncssh import FastConnection
from tui.text.printable import one_line


class LoginClient(asyncssh.SSHClient):
    """The callbacks of one connection; `ended` is set when it is gone."""

    def __init__(self, accepts: Callable[[asyncssh.SSHKey], bool], prompter: Prompter | None, name: str) -> None:
        self._accepts = accepts
        self._prompter = prompter
        self._name = name
        self.connection: FastConnection | None = None
        self.offered: asyncssh.SSHKey | None = None
        self.banner = ""
        """The last line of the server's banner, which may be the reason why it refuses the login."""
        self.remark = ""
        """Text that the server sent without a question: PAM's reason for refusing the login."""
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Keep the connection, which knows whether the server spoke SSH."""
        assert isinstance(conn, FastConnection)
        self.connection = conn

    def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
        """Return whether to accept a host key that is not among the trusted ones."""
        self.offered = key
        return self._accepts(key)

    def auth_banner_received(self, msg: str, _lang: str) -> None:
        """Keep the last line of the banner."""
        lines = [line for line in msg.splitlines() if any(map(str.isalnum, line))]
        self.banner = one_line(lines[-1]) if lines else self.banner

    def kbdint_auth_requested(self) -> str | None:
        """Accept keyboard-interactive login if there is a prompter and the server has not just stated a refusal."""
        return None if self._prompter is None or self.remark else ""

    async def kbdint_challenge_received(
        self, _name: str, instructions: str, _lang: str, prompts: Any
    ) -> list[str] | None:
        """Return the person's answers to the server's questions; keep text without a question as `remark`."""
        if self._prompter is None:
            return None
        text = one_line(instructions)
        if not prompts:
            self.remark = text or self.remark
        answers: list[str] = []
        for prompt, _echo in prompts:
            answer = await self._prompter.secret(f"{self._name} asks: {f'{text} {one_line(prompt)}'.strip()} ")
            if answer is None:
                return None
            answers.append(answer)
        return answers

    def connection_lost(self, exc: Exception | None) -> None:
        """Set `ended`: the connection is gone."""
        if not self.ended.done():
            self.ended.set_result(exc)

    @property
    def greeted(self) -> bool:
        """Return whether the server sent an SSH greeting."""
        return self.connection is not None and bool(self.connection.get_extra_info("server_version"))
