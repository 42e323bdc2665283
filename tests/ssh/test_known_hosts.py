"""Host keys: vouched for by the API, stored in files, hashed, unknown, changed, revoked, accepted."""

from __future__ import annotations

import asyncio
import multiprocessing
import subprocess
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import asyncssh
import pytest

from tests.sshd import OpensshWorker, make_key
from tests.waiting import wait_until
from tui.pod.worker import Worker
from tui.ssh.config.access import Access
from tui.ssh.errors import Reason, SshError
from tui.ssh.fleet import Fleet
from tui.ssh.keys.known_hosts import add_known_host

Start = Callable[..., OpensshWorker]


class Prompter:
    """A prompter that answers questions about host keys and records them."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.questions: list[tuple[str, str, str]] = []

    async def secret(self, text: str) -> str | None:
        return None

    async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
        self.questions.append((worker, key_type, fingerprint))
        return self.answer


def _keygen(*argv: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *argv], check=True, capture_output=True)


def _fingerprint(line: str) -> str:
    return asyncssh.import_public_key(line).get_fingerprint("sha256")


async def _login(
    server: OpensshWorker, *, vouched: bool = False, prompter: Prompter | None = None, **access: object
) -> None:
    worker = server.worker if vouched else server.untrusted_worker
    alias = access.pop("alias", None)
    async with Fleet([replace(worker, host_key_alias=alias)], server.access(**access), prompter=prompter) as fleet:
        assert (await fleet.run(0, "true")).ok


async def _refused(server: OpensshWorker, **options: object) -> SshError:
    with pytest.raises(SshError) as caught:
        await _login(server, **options)  # type: ignore[arg-type]
    return caught.value


def _file(path: Path, *lines: str) -> tuple[str, ...]:
    path.write_text("".join(line + "\n" for line in lines))
    return (str(path),)


async def test_an_unknown_key_is_refused_with_its_fingerprint(sshd: Start) -> None:
    server = sshd()
    error = await _refused(server)
    assert error.reason is Reason.HOST_KEY_UNKNOWN
    assert _fingerprint(server.host_key) in error.why
    assert "--host-keys accept-new" in error.remedy
    assert error.exit_code == 3
    assert not Path(server.access().own_known_hosts or "").exists()


async def test_a_key_that_the_api_vouches_for_needs_no_file(sshd: Start) -> None:
    await _login(sshd(), vouched=True)


async def test_the_api_wins_over_a_file_that_knows_another_key(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    other = make_key(tmp_path / "other")
    await _login(server, vouched=True, known_hosts=_file(tmp_path / "k", f"[127.0.0.1]:{server.port} {other}"))


async def test_a_key_other_than_the_api_says_is_refused_whatever_a_file_says(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    other = make_key(tmp_path / "other")
    files = _file(tmp_path / "k", f"[127.0.0.1]:{server.port} {server.host_key}")
    worker = replace(server.worker, host_keys=(other,))
    async with Fleet([worker], server.access(known_hosts=files, host_keys="accept-new")) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.connect(0)
    assert caught.value.reason is Reason.HOST_KEY_CHANGED
    assert _fingerprint(other) in caught.value.why


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
async def test_a_key_of_any_type_in_a_file_is_trusted(sshd: Start, tmp_path: Path, kind: str) -> None:
    server = sshd(host_key_type=kind)
    await _login(server, known_hosts=_file(tmp_path / "k", f"[127.0.0.1]:{server.port} {server.host_key}"))


async def test_hashed_names_are_understood(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    path = tmp_path / "k"
    files = _file(path, f"[127.0.0.1]:{server.port} {server.host_key}")
    _keygen("-H", "-f", str(path))
    assert "127.0.0.1" not in path.read_text()
    await _login(server, known_hosts=files)


async def test_gclouds_alias_is_looked_up_before_the_address(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    other = make_key(tmp_path / "other")
    files = _file(tmp_path / "k", f"[127.0.0.1]:{server.port} {other}", f"tpu.123-0 {server.host_key}")
    await _login(server, known_hosts=files, alias="tpu.123-0")


async def test_a_line_that_is_garbage_hides_no_other(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    lines = ("@nonsense", "\udcff", "|1|broken ssh-ed25519 AAAA", f"[127.0.0.1]:{server.port} {server.host_key}")
    path = tmp_path / "k"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    await _login(server, known_hosts=(str(path),))


async def test_a_server_known_by_its_rsa_key_must_present_that_key(sshd: Start, tmp_path: Path) -> None:
    rsa = make_key(tmp_path / "rsa", "rsa")
    server = sshd(extra=[f"HostKey {tmp_path / 'rsa'}"])
    await _login(server, known_hosts=_file(tmp_path / "k", f"[127.0.0.1]:{server.port} {rsa}"))


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
async def test_a_changed_key_is_always_refused_and_the_old_line_is_named(
    sshd: Start, tmp_path: Path, policy: str, kind: str
) -> None:
    server = sshd()
    old = make_key(tmp_path / "old", kind)
    files = _file(tmp_path / "k", "# mine", f"[127.0.0.1]:{server.port} {old}")
    prompter = Prompter(True)
    error = await _refused(server, known_hosts=files, host_keys=policy, prompter=prompter)
    assert error.reason is Reason.HOST_KEY_CHANGED
    assert _fingerprint(server.host_key) in error.why
    assert _fingerprint(old) in error.why
    assert f"{files[0]} line 2" in error.remedy
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in error.remedy
    assert not prompter.questions


async def test_a_revoked_key_is_refused(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    name = f"[127.0.0.1]:{server.port}"
    files = _file(tmp_path / "k", f"@revoked {name} {server.host_key}", f"{name} {server.host_key}")
    assert (await _refused(server, known_hosts=files)).reason is Reason.HOST_KEY_CHANGED
    files = _file(tmp_path / "k", f"@revoked {name} {server.host_key}")
    await _refused(server, known_hosts=files, host_keys="accept-new")


async def test_a_certificate_of_a_known_authority_is_trusted(sshd: Start, tmp_path: Path) -> None:
    ca = make_key(tmp_path / "ca")
    make_key(tmp_path / "host")
    _keygen("-s", str(tmp_path / "ca"), "-I", "w", "-h", "-n", "127.0.0.1", str(tmp_path / "host.pub"))
    server = sshd(extra=[f"HostKey {tmp_path / 'host'}", f"HostCertificate {tmp_path / 'host-cert.pub'}"])
    await _login(server, known_hosts=_file(tmp_path / "k", f"@cert-authority [127.0.0.1]:{server.port} {ca}"))


async def test_accept_new_stores_the_key_once_and_privately(sshd: Start) -> None:
    server = sshd()
    for _ in range(2):
        await _login(server, host_keys="accept-new")
    own = Path(server.access().own_known_hosts or "")
    assert own.read_text() == f"[127.0.0.1]:{server.port} {server.host_key}\n"
    assert own.stat().st_mode & 0o777 == 0o600
    await _login(server)


async def test_the_user_is_shown_the_fingerprint_and_a_yes_is_saved(sshd: Start) -> None:
    server = sshd()
    prompter = Prompter(True)
    await _login(server, prompter=prompter)
    assert [(key_type, text) for _, key_type, text in prompter.questions] == [
        ("ssh-ed25519", _fingerprint(server.host_key))
    ]
    await _login(server, prompter=prompter)
    assert len(prompter.questions) == 1


async def test_a_key_that_the_user_declines_stays_unknown(sshd: Start) -> None:
    server = sshd()
    assert (await _refused(server, prompter=Prompter(False))).reason is Reason.HOST_KEY_UNKNOWN
    assert (await _refused(server)).reason is Reason.HOST_KEY_UNKNOWN


@pytest.mark.parametrize(
    "lines", ["StrictHostKeyChecking no\nUserKnownHostsFile none\n", "UserKnownHostsFile /dev/null\nHostKeyAlias x\n"]
)
async def test_no_configuration_file_switches_host_key_checking_off(sshd: Start, tmp_path: Path, lines: str) -> None:
    server = sshd()
    (tmp_path / "config").write_text(f"Host *\n{lines}")
    error = await _refused(server, config=str(tmp_path / "config"))
    assert error.reason is Reason.HOST_KEY_UNKNOWN


def _remember_many(path: str, line: str, together: Barrier) -> None:
    key = asyncssh.import_public_key(line)
    for index in range(50):
        together.wait(30)
        add_known_host(Path(path), f"host-{index}", key)


def test_several_processes_store_keys_without_torn_or_duplicate_lines(tmp_path: Path) -> None:
    path = tmp_path / "own"
    # Reading a long file takes long, so that writers without a lock would collide.
    path.write_text(f"# {'x' * 100}\n" * 20_000 + "torn without an end")
    line = make_key(tmp_path / "key")
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(3)
    writers = [context.Process(target=_remember_many, args=(str(path), line, together)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    torn, *rest = path.read_text().splitlines()[20_000:]
    assert torn == "torn without an end"
    assert sorted(rest) == sorted(f"host-{index} {' '.join(line.split()[:2])}" for index in range(50))


async def test_the_user_is_asked_about_each_unknown_worker(sshd: Start) -> None:
    servers = [sshd() for _ in range(3)]
    prompter = Prompter(True)
    async with Fleet(
        [server.untrusted_worker for server in servers], servers[0].access(), prompter=prompter
    ) as fleet:
        await asyncio.gather(*(fleet.connect(index) for index in range(3)))
    assert {text for _, _, text in prompter.questions} == {_fingerprint(server.host_key) for server in servers}


async def test_logins_that_wait_for_the_same_question_share_its_answer_and_a_later_one_asks(
    sshd: Start,
) -> None:
    server, prompter = sshd(), Prompter(False)
    asked = asyncio.Event()

    class Waiting(Prompter):
        async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
            await asked.wait()
            return await prompter.trust(worker, key_type, fingerprint)

    async with Fleet([server.untrusted_worker], server.access(), prompter=Waiting(False)) as fleet:
        logins = [asyncio.ensure_future(fleet.try_login(0)) for _ in range(3)]
        await asyncio.to_thread(wait_until, lambda: fleet._dialer and "waiters:2" in repr(fleet._dialer._questions))
        asked.set()
        assert {login.stage for login in await asyncio.gather(*logins)} == {"host_key"}
        assert len(prompter.questions) == 1
        await fleet.try_login(0)
    assert len(prompter.questions) == 2


async def test_a_login_waits_as_long_as_the_user_takes_to_answer(sshd: Start) -> None:
    class Thoughtful(Prompter):
        async def trust(self, worker: str, key_type: str, fingerprint: str) -> bool:
            await asyncio.sleep(3.5)
            return await super().trust(worker, key_type, fingerprint)

    server = sshd()
    async with Fleet([server.untrusted_worker], server.access(), prompter=Thoughtful(False)) as fleet:
        reach = await fleet.try_login(0, 3.0)
    assert reach.stage == "host_key"


async def test_unknown_hosts_are_those_that_neither_the_api_nor_a_file_knows(tmp_path: Path) -> None:
    make_key(tmp_path / "host")
    line = " ".join((tmp_path / "host.pub").read_text().split()[:2])
    filed = _file(tmp_path / "known", f"10.0.0.1,[10.0.0.2]:2222 {line}")
    workers = [
        Worker(0, external_ip="10.0.0.1"),
        Worker(1, external_ip="10.0.0.2", port=2222),
        Worker(2, external_ip="10.0.0.2"),
        Worker(3, external_ip="10.0.0.4", host_keys=(line,)),
        Worker(4, external_ip="10.0.0.5", host_keys=("no key at all",)),
    ]
    async with Fleet(workers, Access(known_hosts=filed)) as fleet:
        assert await fleet.unknown_hosts() == [2, 4]
