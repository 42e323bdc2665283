"""The person at the terminal, asked for a passphrase or a one-time code."""

from __future__ import annotations

import asyncio
import getpass
import sys

from tui.printable import one_line


class TerminalPrompter:
    """Asks for secrets; never for trust: a command refuses an unknown host key and says how to accept it."""

    async def secret(self, text: str) -> str | None:
        """What was typed, unseen; None when nothing was."""
        prompt = f"{one_line(text).rstrip(': ')}: "
        try:
            return await asyncio.to_thread(getpass.getpass, prompt) or None
        except EOFError:
            return None

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:  # noqa: ARG002
        """No: `--host-keys accept-new` says yes for a command."""
        return False


def prompter_for_terminal() -> TerminalPrompter | None:
    """Somebody to ask where there is a terminal, nobody where there is none."""
    return TerminalPrompter() if sys.stdin.isatty() and sys.stderr.isatty() else None
