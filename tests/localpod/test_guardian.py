"""Tests of the end of a pod or a worker: nothing of it is left, and no other process is touched."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.pods import local_pod, log_in, pod_home, pod_process_in, running_pod, small_pod, start_pod_process
from tests.waiting import is_running, until, wait_until
from tui.errors import TpuTuiError
from tui.localpod.cleanup.guardian import remove_profile
from tui.localpod.cleanup.process_sweep import Mark, belongs, members, sweep
from tui.localpod.pod import POD_ID_BYTES, LocalPod
from tui.settings import load

__all__ = ["local_pod", "pod_home", "small_pod"]

pytestmark = pytest.mark.timing

STUBBORN = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with open(sys.argv[1], "w") as file: file.write(str(os.getpid()))
os.closerange(0, 64)
time.sleep(1000)
"""
"""A job that leaves its session and its parents, holds nothing open and ignores signals."""


def escape(file: str) -> str:
    """Return the command that starts the stubborn job with an empty environment."""
    return f"exec env -i {sys.executable} -c '{STUBBORN}' {file}"


def pid_in(file: Path) -> int | None:
    """Return the process id that a process wrote into a file."""
    return int(file.read_text()) if file.exists() and file.read_text() else None


def run_on_worker(home: Path, command: str, index: int = 0) -> None:
    """Run a command on a worker of another process's pod, found through its profile like by any command."""
    asyncio.run(_run_on_worker(home, command, index))


async def _run_on_worker(home: Path, command: str, index: int) -> None:
    import asyncssh

    from tui.cloud.open_inventory import open_inventory

    settings = load({"profile": "local"}, {"TPU_TUI_HOME": str(home)})
    inventory = open_inventory(settings)
    try:
        slice_ = await inventory.host_keys(await inventory.get("local", None))
    finally:
        await inventory.close()
    worker = slice_.workers[index]
    keys = "".join(f"[{worker.internal_ip}]:{worker.port} {key}\n" for key in worker.host_keys)
    async with asyncssh.connect(
        worker.internal_ip,
        worker.port,
        username=settings.user,
        client_keys=[str(settings.identity)],
        known_hosts=asyncssh.import_known_hosts(keys),
        config=None,
        agent_path=None,
    ) as connection:
        await connection.run(command, check=True)


def is_listening(place: str) -> bool:
    """Return whether a connection to `host:port` or a URL is accepted."""
    parts = urlsplit(place if "//" in place else f"//{place}")
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


@pytest.fixture
def bystander() -> Iterator[int]:
    """Start a process that does not belong to the pod."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


def processes_of(pod: str) -> list[int]:
    """Return every living process that carries the pod's mark."""
    return list(members([Mark(pod)]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_port_or_file_is_left_however_the_parent_ends(
    pod_home: Path, bystander: int, number: signal.Signals
) -> None:
    pod = start_pod_process(pod_home, workers=2)
    profile = pod_home / "profiles" / "local.toml"
    settings = load({}, {"TPU_TUI_HOME": str(pod_home)})
    assert settings.identity is not None
    directory = settings.identity.parent
    homes = sorted(directory.glob("slices/local/w-*/home"))
    name = next(line for line in profile.read_text().splitlines() if line.startswith("pod")).split('"')[1]
    run_on_worker(pod_home, escape("stubborn"))
    wait_until(lambda: pid_in(homes[0] / "stubborn"), "the stubborn job runs")
    stubborn = pid_in(homes[0] / "stubborn")
    assert stubborn is not None
    assert len(processes_of(name)) >= 5  # fork server, two hosts, the bucket, the job
    places = [*pod.announcement["tpu_api"].values(), pod.announcement["storage"]]
    assert all(is_listening(place) for place in places)

    code = pod.end(number)

    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    wait_until(lambda: not directory.exists(), "the files are removed")
    assert processes_of(name) == []
    assert not is_running(stubborn)
    assert not any(is_listening(place) for place in places)
    assert not profile.exists()
    assert is_running(bystander)


def test_a_pod_whose_standard_input_ends_ends_too(pod_home: Path) -> None:
    pod = start_pod_process(pod_home)
    assert pod.process.stdin is not None
    pod.process.stdin.close()
    assert pod.wait() == 0
    assert not (pod_home / "profiles" / "local.toml").exists()


def test_jobs_get_default_signals_whatever_the_pods_terminal_ignored(pod_home: Path) -> None:
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    try:
        with pod_process_in(pod_home):
            probe = "import signal; print(signal.getsignal(signal.SIGQUIT) == signal.SIG_DFL)"
            run_on_worker(pod_home, f"test \"$(python -c '{probe}')\" = True")
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


async def test_a_killed_worker_ends_its_own_jobs_and_no_others(local_pod: LocalPod, bystander: int) -> None:
    homes = local_pod.machines.homes("local")
    for index in (0, 1):
        async with log_in(local_pod, index) as connection:
            await connection.run(escape("stubborn"))
    await until(lambda: all(pid_in(home / "stubborn") for home in homes[:2]), "both jobs run")
    first, second = (pid_in(home / "stubborn") for home in homes[:2])
    assert first is not None
    assert second is not None

    local_pod.machines.preempt("local", 1)

    await until(lambda: not is_running(second), "the preempted worker's job ends")
    assert local_pod.machines.alive("local") == [True, False, True, True]
    assert is_running(first)
    assert is_running(bystander)
    async with log_in(local_pod, 0) as connection:
        assert (await connection.run("true")).exit_status == 0
    with pytest.raises(ConnectionRefusedError):
        await log_in(local_pod, 1)


async def test_a_stopped_slice_starts_again_as_the_same_machines(small_pod: LocalPod) -> None:
    machines = small_pod.machines
    before = machines.workers("local")
    async with log_in(small_pod) as connection:
        await connection.run("echo kept >file")
        job = await connection.create_process("echo $$ >pid; exec sleep 1000")
        pid_file = machines.homes("local")[0] / "pid"
        await until(lambda: pid_in(pid_file), "the job runs")
        await machines.stop("local")
        await job.wait_closed()
    assert not is_running(pid_in(pid_file) or 0)
    assert machines.alive("local") == []
    assert await machines.start("local", 1, 2) == before
    async with log_in(small_pod) as connection:
        assert (await connection.run("cat file")).stdout == "kept\n"


async def test_a_stopped_slice_whose_restart_fails_keeps_its_files(small_pod: LocalPod) -> None:
    machines = small_pod.machines
    before = machines.workers("local")
    async with log_in(small_pod) as connection:
        await connection.run("echo kept >file")
    await machines.stop("local")
    with (
        socket.create_server((before[0].address, before[0].port)),
        pytest.raises(TpuTuiError, match="addresses of slice local could not be taken"),
    ):
        await machines.start("local", 1, 2)
    assert machines.alive("local") == []
    assert await machines.start("local", 1, 2) == before
    async with log_in(small_pod) as connection:
        assert (await connection.run("cat file")).stdout == "kept\n"


async def test_a_slice_that_does_not_start_leaves_no_file(small_pod: LocalPod) -> None:
    spoiled = small_pod.directory / "slices" / "another" / "w-1"
    spoiled.parent.mkdir()
    spoiled.touch()
    with pytest.raises(NotADirectoryError):
        await small_pod.machines.start("another", 2, 1)
    assert not spoiled.parent.exists()


async def test_a_removed_slice_leaves_no_file(small_pod: LocalPod) -> None:
    await small_pod.machines.start("another", 2, 1)
    directory = small_pod.directory / "slices" / "another"
    assert len(list(directory.iterdir())) == 2
    await small_pod.machines.remove("another")
    assert not directory.exists()
    assert small_pod.machines.alive("local") == [True]


async def test_another_guardian_takes_over_when_the_first_is_killed(pod_home: Path) -> None:
    async with running_pod(pod_home, workers=2) as pod:
        directory = pod.directory
        first = _guardian_of(pod)
        os.kill(first, signal.SIGKILL)
        await until(lambda: _guardian_of(pod) not in (0, first), "there is another guardian")
        async with log_in(pod, 1) as connection:
            await connection.run(escape("stubborn"))
        file = pod.machines.homes("local")[1] / "stubborn"
        await until(lambda: pid_in(file), "the job runs")
        job = pid_in(file)
        assert job is not None
        pod.machines.preempt("local", 1)
        await until(lambda: not is_running(job), "its job ends")
    assert not directory.exists()


def _guardian_of(pod: LocalPod) -> int:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tui.localpod.cleanup.guardian" in words and pod.id.encode() in words:
            return int(entry.parent.name)
    return 0


def test_a_profile_that_another_pod_has_written_stays(tmp_path: Path) -> None:
    profile = tmp_path / "local.toml"
    profile.write_text('project = "local"\n\n[local]\npid = 4\npod = "abcdef"\n')
    remove_profile(profile, "123456")
    assert profile.exists()
    remove_profile(profile, "abcdef")
    assert not profile.exists()


def _start_marked(mark: Mark, *, scrubbed: bool) -> subprocess.Popen[bytes]:
    """Start a marked process, without `preexec_fn`: a fork of a process with gRPC's threads could block before it."""
    if not scrubbed:
        return subprocess.Popen(["sleep", "1000"], env=mark.environment)
    imports = "import os; from tui.localpod.cleanup.process_sweep import Mark"
    code = f"{imports}; {mark}.put_on(); os.execvp('sleep', ['sleep', '1000'])"
    return subprocess.Popen([sys.executable, "-c", code], env={})


@pytest.mark.parametrize("scrubbed", [True, False], ids=["by its limit", "by its environment"])
def test_a_marked_process_is_found(scrubbed: bool) -> None:
    own, other = (Mark(secrets.token_hex(POD_ID_BYTES), "local/1", 7) for _ in range(2))  # other test runs sweep too
    process = _start_marked(own, scrubbed=scrubbed)
    try:
        wait_until(lambda: belongs(process.pid, [own]), "its environment can be read, which is empty during exec")
        assert belongs(process.pid, [Mark(own.pod)])
        assert not belongs(process.pid, [Mark(own.pod, "local/2", 8)])
        assert not belongs(process.pid, [other])
        assert sweep([other]) == []
        assert process.poll() is None
        assert sweep([own]) == []
        assert process.wait(10) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
