"""A time limit that does not run while the user is clock a question."""

from __future__ import annotations

import asyncio

import pytest

from tui.ssh.transport.paused_timeout import PromptClock, wait_for

pytestmark = [pytest.mark.timing, pytest.mark.py310]


class Prompter:
    """A prompter that answers once `answering` is set."""

    def __init__(self) -> None:
        self.answering = asyncio.Event()

    async def secret(self, text: str) -> str | None:
        await self.answering.wait()
        return text

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        await self.answering.wait()
        return bool(worker and key_type and fingerprint)


async def test_work_that_is_done_in_time_returns_the_time_left() -> None:
    async def work() -> str:
        return "done"

    result, left = await wait_for(60.0, work(), None)
    assert result == "done"
    assert 0 < left < 60


async def test_work_that_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(asyncio.TimeoutError):
        await wait_for(0.05, work(), PromptClock(Prompter()))
    assert cancelled.is_set()


@pytest.mark.parametrize("kind", ["secret", "trust"])
async def test_the_time_limit_does_not_run_while_the_user_is_asked(kind: str) -> None:
    prompter = Prompter()
    clock = PromptClock(prompter)
    asyncio.get_running_loop().call_later(1.0, prompter.answering.set)

    async def work() -> object:
        return await (clock.secret("passphrase") if kind == "secret" else clock.trust("0", "ed25519", "SHA256:x"))

    result, left = await wait_for(0.5, work(), clock)
    assert result == ("passphrase" if kind == "secret" else True)
    assert left > 0
    assert clock.seconds >= 0.5


async def test_work_that_fails_in_time_raises_its_own_error() -> None:
    async def work() -> None:
        raise OSError("no way")

    with pytest.raises(OSError, match="no way"):
        await wait_for(60.0, work(), None)
