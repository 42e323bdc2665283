"""Questions of SSH connections as dialogs: one at a time, and one answer can hold for all workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from tui.console.screens.dialog import Dialog, SecretDialog, TrustDialog

if TYPE_CHECKING:
    from tui.console.base_app import BaseApp

Answer = TypeVar("Answer")


class DialogPrompter:
    """The console's answer to `tui.ssh`'s questions."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self._turn = asyncio.Lock()
        self._trust_all = False

    async def secret(self, text: str) -> str | None:
        """Ask for a passphrase or code; None when it is not given."""
        async with self._turn:
            return await self.ask(SecretDialog(text))

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        """Ask whether to trust an unknown host key."""
        async with self._turn:
            if self._trust_all:
                return True
            answer = await self.ask(TrustDialog(worker, key_type, fingerprint))
            self._trust_all = answer == "all"
            return answer in ("yes", "all")

    async def ask(self, dialog: Dialog[Answer]) -> Answer | None:
        """Show a dialog and wait for its answer; close the dialog if this task is cancelled."""
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def answered(value: Answer | None) -> None:
            if not answer.done():
                answer.set_result(value)

        self._app.push_screen(dialog, answered)
        try:
            return await answer
        except asyncio.CancelledError:
            dialog.leave_with(None)
            raise
