"""The steps of a login, as the server logs them, and asyncssh's log messages."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest
from asyncssh import SSHClientConnection

from tests.ssh.test_client_keys import _add, agent
from tests.sshd import OpensshWorker, make_key
from tui.ssh.config.access import Access
from tui.ssh.fleet import Fleet

__all__ = ["agent"]

pytestmark = pytest.mark.py310

Start = Callable[..., OpensshWorker]
KEY_QUERY = "Postponed publickey"
"""What sshd logs when a client asks whether a key would be accepted."""
KEYLESS = "Failed none"


async def _log_in(server: OpensshWorker, access: Access) -> None:
    async with Fleet([server.worker], access) as fleet:
        assert (await fleet.run(0, "true")).exit_code == 0


async def test_the_first_key_is_offered_signed_without_a_query_before(sshd: Start) -> None:
    server = sshd(extra=("LogLevel DEBUG1",))
    await _log_in(server, server.access())
    assert "Accepted publickey" in server.log
    assert KEY_QUERY not in server.log
    assert KEYLESS not in server.log


async def test_after_a_refused_key_the_server_is_asked_about_the_next(sshd: Start, tmp_path: Path) -> None:
    server = sshd(extra=("LogLevel DEBUG1",))
    make_key(tmp_path / "other_key")
    paths = (str(tmp_path / "other_key"), str(server.identity))
    await _log_in(server, server.access(identity=None, identities=paths))
    assert "Failed publickey" in server.log
    assert KEY_QUERY in server.log


async def test_an_agent_is_not_asked_to_sign_before_the_server_wants_its_key(
    sshd: Start,
    agent: str,
) -> None:
    server = sshd(extra=("LogLevel DEBUG1",))
    _add(agent, server.identity)
    await _log_in(server, server.access(identity=None, agent=agent))
    assert KEY_QUERY in server.log


async def test_log_messages_are_formatted_only_if_read(sshd: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = sshd()
    await _log_in(server, server.access())
    assert not [one for one in caplog.records if one.name.startswith("asyncssh")]
    with caplog.at_level(logging.INFO, logger="asyncssh"):
        await _log_in(server, server.access())
    assert "Auth for user root succeeded" in caplog.text


def test_the_private_names_of_asyncssh_exist_and_mean_what_the_connection_assumes() -> None:
    """The contract behind `a connection that stays`, `a command over it` and `exec against pdsh` of `make bench`."""
    source = inspect.getsource(asyncssh.connection)
    for name in ("_auth_methods", "_client_keys", "_banner_lines", "_inpbuf"):
        assert f"self.{name}" in source, name
    assert list(inspect.signature(SSHClientConnection.__init__).parameters)[:3] == ["self", "loop", "options"]
    assert "wait" in inspect.signature(SSHClientConnection.__init__).parameters
    assert "self._waiter = options.waiter if wait else None" in source
    for name in ("try_next_auth", "public_key_auth_requested", "send_userauth_request"):
        assert name in dir(SSHClientConnection), name
    for name in ("send_packet", "logger", "log_sent_packet", "log_received_packet"):
        assert hasattr(SSHClientConnection, name), name
    assert "use_executor" in inspect.getsource(asyncssh.public_key.SSHLocalKeyPair)
