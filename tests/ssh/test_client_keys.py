"""Client keys: files, passphrases, certificates, the agent, and keys that are passed to another process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from tests.sshd import OpensshWorker, make_key
from tui.errors import OutOfReachError, UsageError
from tui.pod.worker import Worker
from tui.ssh.config.access import Access
from tui.ssh.errors import Reason, SshError
from tui.ssh.fleet import Fleet
from tui.ssh.keys.client_keys import has_unencrypted_key, unlock

Start = Callable[..., OpensshWorker]
PASSPHRASE = "correct horse"


class Prompter:
    """A prompter that gives the passphrases it was made with, one by one, then none."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def secret(self, text: str) -> str | None:
        self.questions.append(text)
        return self.answers.pop(0) if self.answers else None

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        return False


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """Run a real ssh-agent without keys for one test, and yield its socket."""
    path = str(tmp_path / "agent")
    environ = {**os.environ, "SSH_ASKPASS": "/bin/false"}
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, env=environ)
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            while probe.connect_ex(path):  # The file exists a moment before the agent listens.
                assert process.poll() is None
                os.sched_yield()
        yield path
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _add(agent: str, *keys: Path, options: Sequence[str] = ()) -> None:
    environment = {**os.environ, "SSH_AUTH_SOCK": agent}
    subprocess.run(["ssh-add", "-q", *options, *map(str, keys)], env=environment, check=True, capture_output=True)


def _encrypted(server: OpensshWorker, tmp_path: Path) -> Path:
    """Return a copy, with a passphrase, of the key that the server accepts."""
    path = tmp_path / "encrypted"
    path.write_bytes(server.identity.read_bytes())
    path.chmod(0o600)
    path.with_name("encrypted.pub").write_bytes(server.identity.with_name("identity.pub").read_bytes())
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", PASSPHRASE, "-f", str(path)], check=True, capture_output=True)
    return path


async def _logs_in(server: OpensshWorker, access: Access, prompter: Prompter | None = None) -> Access:
    async with Fleet([server.worker], access, prompter=prompter) as fleet:
        assert (await fleet.run(0, "true")).ok
        return fleet.access


async def test_a_passphrase_is_asked_once_for_all_workers(sshd: Start, tmp_path: Path) -> None:
    servers = [sshd(), sshd()]
    prompter = Prompter(PASSPHRASE)
    access = servers[0].access(identity=str(_encrypted(servers[0], tmp_path)))
    async with Fleet([server.worker for server in servers], access, prompter=prompter) as fleet:
        rows = [row async for row in fleet.run_all([0, 1], "true")]
    assert len(rows) == 2
    assert len(prompter.questions) == 1


async def test_a_wrong_passphrase_is_asked_again(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    prompter = Prompter("wrong", PASSPHRASE)
    await _logs_in(server, server.access(identity=str(_encrypted(server, tmp_path))), prompter)
    assert len(prompter.questions) == 2


async def test_without_a_prompter_the_error_names_ssh_add(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    path = _encrypted(server, tmp_path)
    with pytest.raises(OutOfReachError) as caught:
        await _logs_in(server, server.access(identity=str(path)))
    assert caught.value.exit_code == 3
    assert caught.value.remedy == f"ssh-add {path}"


async def test_an_encrypted_default_key_is_decrypted_only_when_the_others_were_refused(
    sshd: Start, tmp_path: Path
) -> None:
    server = sshd()
    make_key(tmp_path / "other_key")
    locked = str(_encrypted(server, tmp_path))
    access = server.access(identity=None, identities=(str(tmp_path / "other_key"), locked))
    prompter = Prompter(PASSPHRASE)
    await _logs_in(server, access, prompter)
    assert len(prompter.questions) == 1
    with pytest.raises(SshError) as caught:
        await _logs_in(server, access)
    assert caught.value.reason is Reason.DENIED
    assert f"ssh-add {locked}" in caught.value.remedy
    untouched = Prompter(PASSPHRASE)
    await _logs_in(server, server.access(identity=None, identities=(str(server.identity), locked)), untouched)
    assert not untouched.questions


async def test_a_user_who_declines_is_asked_only_once_for_a_whole_pod(sshd: Start, tmp_path: Path) -> None:
    servers = [sshd() for _ in range(3)]
    make_key(tmp_path / "other_key")
    locked = str(_encrypted(servers[0], tmp_path))
    access = servers[0].access(identity=None, identities=(str(tmp_path / "other_key"), locked))
    prompter = Prompter()
    async with Fleet([server.worker for server in servers], access, prompter=prompter) as fleet:
        rows = [row async for row in fleet.run_all(range(3), "true")]
        assert [row.reason for row in rows if isinstance(row, SshError)] == [Reason.DENIED] * 3
        assert len(prompter.questions) == 1


async def test_one_passphrase_is_enough_for_all_workers_that_denied_the_login(sshd: Start, tmp_path: Path) -> None:
    servers = [sshd() for _ in range(3)]
    make_key(tmp_path / "other_key")
    locked = str(_encrypted(servers[0], tmp_path))
    access = servers[0].access(identity=None, identities=(str(tmp_path / "other_key"), locked))
    prompter = Prompter(PASSPHRASE)
    async with Fleet([server.worker for server in servers], access, prompter=prompter) as fleet:
        rows = [row async for row in fleet.run_all(range(3), "true")]
    assert not [row for row in rows if isinstance(row, SshError)]
    assert len(prompter.questions) == 1


async def test_decrypted_keys_are_passed_as_json_and_need_no_prompt(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    path = _encrypted(server, tmp_path)
    opened = await _logs_in(server, server.access(identity=str(path)), Prompter(PASSPHRASE))
    path.unlink()
    handed = Access.from_json(json.loads(json.dumps(opened.to_json())))
    assert handed == opened
    await _logs_in(server, handed)


async def test_unlock_decrypts_keys_without_a_worker(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    path = _encrypted(server, tmp_path)
    opened = await unlock(server.access(identity=str(path)), Prompter(PASSPHRASE))
    await _logs_in(server, opened)


async def test_private_keys_appear_in_no_repr(sshd: Start) -> None:
    server = sshd()
    opened = await unlock(server.access())
    assert opened.client_keys
    assert "PRIVATE" not in repr(opened)
    assert "PRIVATE" not in repr(opened.client_keys)


async def test_the_agent_is_used_first(sshd: Start, tmp_path: Path, agent: str) -> None:
    server = sshd()
    _add(agent, server.identity)
    await _logs_in(server, server.access(identity=None, agent=agent))


async def test_an_encrypted_key_that_the_agent_holds_needs_no_passphrase(
    sshd: Start, tmp_path: Path, agent: str
) -> None:
    server = sshd()
    _add(agent, server.identity)
    await _logs_in(server, server.access(identity=str(_encrypted(server, tmp_path)), agent=agent))


async def test_a_crowded_agent_does_not_hide_the_requested_key(sshd: Start, tmp_path: Path, agent: str) -> None:
    server = sshd()
    for number in range(8):
        make_key(tmp_path / f"k{number}")
        _add(agent, tmp_path / f"k{number}")
    await _logs_in(server, server.access(agent=agent))
    await _logs_in(server, server.access(identity=None, identities=(str(server.identity),), agent=agent))
    with pytest.raises(SshError) as caught:
        await _logs_in(server, server.access(identity=None, agent=agent))
    assert caught.value.reason is Reason.DENIED
    assert "--identity" in str(caught.value)
    _add(agent, server.identity)
    await _logs_in(server, server.access(identity=None, agent=agent))
    assert "Too many authentication failures" in server.log


async def test_a_key_with_which_the_agent_does_not_sign_is_used_from_its_file(
    sshd: Start, tmp_path: Path, agent: str
) -> None:
    server = sshd()
    _add(agent, server.identity, options=("-c",))
    await _logs_in(server, server.access(agent=agent))
    with pytest.raises(SshError) as caught:
        await _logs_in(server, server.access(identity=None, agent=agent))
    assert caught.value.reason is Reason.DENIED
    assert "did not sign" in caught.value.why
    assert "--identity" in caught.value.remedy


async def test_an_agent_that_is_gone_does_no_harm(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    await _logs_in(server, server.access(agent=str(tmp_path / "gone")))


async def test_a_certificate_next_to_the_key_is_accepted(sshd: Start, tmp_path: Path) -> None:
    make_key(tmp_path / "ca")
    make_key(tmp_path / "mine")
    sign = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "me", "-n", "root", str(tmp_path / "mine.pub")]
    subprocess.run(sign, check=True, capture_output=True)  # noqa: ASYNC221
    server = sshd(extra=[f"TrustedUserCAKeys {tmp_path / 'ca.pub'}"])
    opened = await _logs_in(server, server.access(identity=str(tmp_path / "mine")))
    (tmp_path / "mine-cert.pub").unlink()
    await _logs_in(server, Access.from_json(json.loads(json.dumps(opened.to_json()))))
    with pytest.raises(SshError):
        await _logs_in(server, server.access(identity=str(tmp_path / "mine")))


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
async def test_other_kinds_of_keys_log_in(sshd: Start, tmp_path: Path, kind: str) -> None:
    public = make_key(tmp_path / kind, kind)
    server = sshd()
    (server.root / "authorized_keys").write_text(public + "\n")
    await _logs_in(server, server.access(identity=str(tmp_path / kind)))


async def test_a_key_file_that_is_missing_or_invalid_is_a_usage_error(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    (tmp_path / "text").write_text("hello")
    for name in ("text", "missing"):
        with pytest.raises(UsageError, match=name):
            await _logs_in(server, server.access(identity=str(tmp_path / name)))


class Asking(asyncssh.SSHServer):
    """A server that asks the questions of a challenge and accepts a client that answers them correctly."""

    def __init__(self, challenge: tuple[object, ...], *answers: str) -> None:
        self.challenge = challenge
        self.answers = list(answers)

    def begin_auth(self, username: str) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> object:
        return self.challenge

    def validate_kbdint_response(self, username: str, responses: list[str]) -> bool:
        return bool(self.answers) and responses == self.answers


@asynccontextmanager
async def _asking(instruction: str, prompts: list[tuple[str, bool]], *answers: str) -> AsyncIterator[Worker]:
    """Run a worker whose server asks questions instead of checking a key; every command there prints `done`."""
    done = "done"
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: Asking(("", instruction, "", prompts), *answers),
        server_host_keys=[key],
        process_factory=lambda process: (process.stdout.write(done), process.exit(0)),
    ) as server:
        public = key.export_public_key().decode().strip()
        yield Worker(0, internal_ip="127.0.0.1", port=server.get_port(), host_keys=(public,))


async def test_a_one_time_code_is_asked_for() -> None:
    prompter = Prompter("123456")
    async with (
        _asking("", [("Code \x1b[31m:", False)], "123456") as worker,
        Fleet([worker], Access(user="me"), prompter=prompter) as fleet,
    ):
        assert (await fleet.run(0, "x")).stdout == b"done"
    assert len(prompter.questions) == 1
    assert "\x1b" not in prompter.questions[0]


async def test_the_servers_reason_for_refusing_a_login_is_quoted() -> None:
    why = "Account locked due to 3 failed logins"
    async with _asking(f"{why}\n", []) as worker, Fleet([worker], Access(user="me"), prompter=Prompter()) as fleet:
        with pytest.raises(SshError, match=why):
            await fleet.run(0, "x")


def _key(path: Path, *options: str) -> str:
    subprocess.run(["ssh-keygen", "-q", "-f", str(path), *options], check=True)
    return str(path)


@pytest.mark.parametrize(
    ("options", "is_unencrypted"),
    [
        (("-t", "ed25519", "-N", ""), True),
        (("-t", "rsa", "-b", "2048", "-N", ""), True),
        (("-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""), True),
        (("-t", "ecdsa", "-m", "PEM", "-N", ""), True),
        (("-t", "ed25519", "-N", PASSPHRASE), False),
        (("-t", "rsa", "-b", "2048", "-m", "PEM", "-N", PASSPHRASE), False),
        (("-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", PASSPHRASE), False),
    ],
)
def test_only_a_key_without_a_passphrase_counts_as_unencrypted(
    tmp_path: Path, options: tuple[str, ...], is_unencrypted: bool
) -> None:
    assert has_unencrypted_key(Access(identity=_key(tmp_path / "key", *options))) is is_unencrypted


def test_one_unencrypted_default_key_is_enough_and_a_given_identity_counts_alone(tmp_path: Path) -> None:
    locked = _key(tmp_path / "locked", "-t", "ed25519", "-N", PASSPHRASE)
    plain = _key(tmp_path / "plain", "-t", "ed25519", "-N", "")
    missing = str(tmp_path / "missing")
    assert has_unencrypted_key(Access(identities=(missing, locked, plain)))
    assert not has_unencrypted_key(Access(identity=locked, identities=(plain,)))
    assert not has_unencrypted_key(Access(identities=(missing, locked)))


@pytest.mark.parametrize("text", ["", "junk", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "\x00\xff"])
def test_a_file_that_is_no_key_does_not_count_as_unencrypted(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    assert not has_unencrypted_key(Access(identity=str(tmp_path / "key")))
