"""Real OpenSSH servers on loopback, to which tests log in as workers."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until
from tui.pod.worker import Worker
from tui.ssh.config.access import Access

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
START_SECONDS = 20.0
MARK = "TPU_TUI_TEST_SSHD"
"""An environment variable of every process that a server starts; its value names the server."""
BARE_PACKAGES = ("coreutils", "util-linux", "dash")
"""The Debian packages whose programs are on the PATH of a bare worker."""

MISSING = (
    f"no OpenSSH server ({SSHD}): apt-get install openssh-server"
    if not Path(SSHD).exists()
    else "an OpenSSH server that runs commands needs root"
    if os.geteuid() != 0
    else ""
)
needs_sshd = pytest.mark.skipif(bool(MISSING), reason=MISSING or "an OpenSSH server is here")


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port with a full backlog: Linux drops further packets silently, as a firewall does."""
    with socket.socket() as listener, socket.socket() as filler, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for sock in (filler, second):
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])


@dataclass
class OpensshWorker:
    """One sshd: its address, how to log in, and the HOME of its sessions.

    Sessions begin in the account's own directory, not in `home`.
    """

    index: int
    port: int
    user: str
    root: Path
    home: Path
    identity: Path
    host_key: str
    config: Path
    mark: str
    host: str = "127.0.0.1"
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def worker(self) -> Worker:
        """The worker as a launch sees it, with a trusted host key."""
        return Worker(
            index=self.index,
            hostname=f"t1v-n-test-w-{self.index}",
            internal_ip=self.host,
            port=self.port,
            user=self.user,
            host_keys=(self.host_key,),
        )

    @property
    def untrusted_worker(self) -> Worker:
        """The same worker without a trusted host key."""
        return replace(self.worker, host_keys=())

    def access(self, **changes: Any) -> Access:
        """Return how to log in: the tests' key, no agent, none of this machine's SSH files."""
        values: dict[str, Any] = {
            "user": self.user,
            "identity": str(self.identity),
            "own_known_hosts": str(self.root / "own_known_hosts"),
        }
        return Access(**{**values, **changes})

    @property
    def log(self) -> str:
        """The server's log so far."""
        return (self.root / "sshd.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server and wait until it listens."""
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = self.root / "sshd.log"
        before = log.stat().st_size if log.exists() else 0
        command = [SSHD, "-D", "-f", str(self.config), "-E", str(log)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not log.exists() or b"Server listening on" not in log.read_bytes()[before:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start: {self.log}")
            time.sleep(0.005)

    def connections(self) -> list[int]:
        """Return the server's processes for connections, without the listener."""
        return [] if self.process is None else [pid for pid in _children(self.process.pid) if _is_sshd(pid)]

    def cut(self) -> None:
        """Kill every connection at once, like a broken network; the server still listens."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the server's side of every connection, like a worker that hangs, until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue frozen connections."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for connection in self.connections():
            for pid in (*filter(_is_sshd, _children(connection)), connection):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def stop(self) -> None:
        """Kill the server and its connections; detached jobs go on."""
        if self.process is None:
            return
        self._cut_all(self.process)
        self.process.kill()
        self.process.wait()
        self.process = None

    def _cut_all(self, listener: subprocess.Popen[bytes]) -> None:
        """Suspend the listener, so that it accepts no connection meanwhile, and kill its connections."""
        listener.send_signal(signal.SIGSTOP)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(listener.pid, os.WUNTRACED)
        self.cut()

    def restore(self) -> None:
        """Undo what a test did to connections, home, log and files; start the server if it does not run."""
        if self.process is not None and self.process.poll() is None:
            self._cut_all(self.process)
            wait_until(lambda: not self.connections(), "all connections have ended")
        else:
            self.process = None
        for path in self.root.iterdir():
            if path.is_dir() and not path.is_symlink() and path.name != "bin":
                wait_until(lambda directory=path: _is_removed(directory), f"{path} is removed")
            elif path.name not in (*self.files, "bin", "sshd.log"):
                path.unlink()
        self.home.mkdir()
        for name, content in self.files.items():
            path = self.root / name
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
                path.chmod(0o600)
        if (self.root / "bin").exists() and not has_bare_path(self.root):
            shutil.rmtree(self.root / "bin")
            bare_path(self.root)
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.root / "sshd.log", 0)
        if self.process is None:
            self.start()
        else:
            self.process.send_signal(signal.SIGCONT)


def end_processes(servers: Sequence[OpensshWorker]) -> None:
    """Kill every process that was started through these servers, detached or not."""
    marks = {f"{MARK}={server.mark}".encode() for server in servers}

    def is_over() -> bool:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _has_any(path, marks)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_until(is_over, "all processes have ended")


def _has_any(process: Path, marks: set[bytes]) -> bool:
    try:
        return not marks.isdisjoint((process / "environ").read_bytes().split(b"\0"))
    except OSError:
        return False


def _is_removed(directory: Path) -> bool:
    """Remove a directory and return whether it is gone; a dying process may still write into it."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_sshd(pid: int) -> bool:
    """Return whether a process is a live sshd rather than a command that sshd runs."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return False
    return name.startswith("sshd") and rest.split()[0] != "Z"


def free_port(host: str = "127.0.0.1") -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> str:
    """Write a key pair with ssh-keygen and return the public line."""
    size = ("-b", "2048") if kind == "rsa" else ()  # a larger key takes seconds to make
    command = ["ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return path.with_name(path.name + ".pub").read_text().strip()


def bare_path(directory: Path) -> str:
    """Make a directory of the programs of coreutils, util-linux and sh only, and return it as a PATH."""
    bin_ = directory / "bin"
    bin_.mkdir()
    for name, program in bare_programs().items():
        (bin_ / name).symlink_to(program)
    return str(bin_)


@functools.cache
def bare_programs(packages: tuple[str, ...] = BARE_PACKAGES) -> dict[str, str]:
    """Return the path of each program of these Debian packages, and of sh, by name."""
    listing = subprocess.run(["dpkg", "-L", *packages], check=True, capture_output=True, text=True).stdout
    found = {"sh": "/bin/sh"}
    for program in map(Path, listing.splitlines()):
        if program.parent.name in ("bin", "sbin") and program.is_file():
            found.setdefault(program.name, str(program))
    return found


def has_bare_path(directory: Path) -> bool:
    """Return whether the directory that `bare_path` made is unchanged."""
    there = (directory / "bin").iterdir()
    return {path.name: str(path.readlink()) if path.is_symlink() else "" for path in there} == bare_programs()


@functools.cache
def _version() -> tuple[int, int]:
    text = subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr
    match = re.search(r"OpenSSH_(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@contextlib.contextmanager
def openssh_worker(
    directory: Path,
    *,
    index: int = 0,
    extra: Sequence[str] = (),
    bare: bool = False,
    max_sessions: int | None = None,
    forwarding: bool = True,
    user: str = "root",
    host_key_type: str = "ed25519",
    host: str = "127.0.0.1",
    port: int | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[OpensshWorker]:
    """Run a real sshd for the duration of the context; skip the test where there is no sshd or no root.

    Servers made in the same `directory` accept the same key. `extra` are lines put first in sshd_config (the first
    value of a keyword wins), `bare` leaves only coreutils, util-linux and sh on PATH, `environment` adds variables to
    every session.
    """
    if MISSING:
        pytest.skip(MISSING)
    root = Path(directory) / f"sshd-{index}-{secrets.token_hex(3)}"
    home = root / "home"
    home.mkdir(parents=True)
    if user != "root":
        shutil.chown(home, user)
    host_key = make_key(root / "host_key", host_key_type)
    identity = Path(directory) / "identity"
    if not identity.exists():
        make_key(identity)
    shutil.copyfile(f"{identity}.pub", root / "authorized_keys")
    mark = secrets.token_hex(8)
    variables = {MARK: mark, "HOME": str(home), **(environment or {})}
    if bare:
        variables["PATH"] = bare_path(root)
    port = port or free_port(host)
    lines = [
        *extra,
        f"Port {port}",
        f"ListenAddress {host}",
        f"HostKey {root / 'host_key'}",
        "PidFile none",
        f"AuthorizedKeysFile {root / 'authorized_keys'}",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PrintMotd no",
        "MaxStartups 200",
        f"AllowTcpForwarding {'yes' if forwarding else 'no'}",
        "SetEnv " + " ".join(f'"{name}={value}"' for name, value in variables.items()),
        "Subsystem sftp internal-sftp",
    ]
    if max_sessions is not None:
        lines.append(f"MaxSessions {max_sessions}")
    if _version() >= (9, 8):
        lines.append("PerSourcePenalties no")
    config = root / "sshd_config"
    config.write_text("\n".join(lines) + "\n")
    server = OpensshWorker(
        index, port, user, root, home, identity, " ".join(host_key.split()[:2]), config, mark, host
    )
    server.files = {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}
    try:
        server.start()
        yield server
    finally:
        server.stop()
        end_processes([server])


class SshdPool:
    """Running servers without special options that the tests of one process reuse; all accept the same client key."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._idle: dict[tuple[int, bool], list[OpensshWorker]] = {}
        self._stack = contextlib.ExitStack()

    @contextlib.contextmanager
    def lend(self) -> Iterator[Callable[..., OpensshWorker]]:
        """Yield a function that starts servers, or reuses idle ones, for one test."""
        taken: list[tuple[OpensshWorker, object, list[OpensshWorker]]] = []
        count = 0

        def start(**options: Any) -> OpensshWorker:
            nonlocal count
            options = {"index": count, **options}
            count += 1
            if not options.keys() <= {"index", "bare"}:
                return special.enter_context(openssh_worker(self.directory, **options))
            idle = self._idle.setdefault((options["index"], options.get("bare", False)), [])
            server = idle.pop() if idle else self._stack.enter_context(openssh_worker(self.directory, **options))
            taken.append((server, server.process, idle))
            return server

        with contextlib.ExitStack() as special:
            yield start
        end_processes([server for server, _, _ in taken])
        for server, process, idle in taken:
            if server.process is not process:
                server.stop()  # a test that restarted the server may have changed its host key
            server.restore()
            idle.append(server)

    def close(self) -> None:
        """Stop all servers."""
        self._stack.close()


@pytest.fixture(scope="session")
def sshd_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshdPool]:
    """Yield the pool of servers for the tests of this process."""
    pool = SshdPool(tmp_path_factory.mktemp("sshd"))
    yield pool
    pool.close()


@pytest.fixture
def sshd(sshd_pool: SshdPool) -> Iterator[Callable[..., OpensshWorker]]:
    """Start as many servers as a test needs: `sshd()`, `sshd(bare=True)`, `sshd(max_sessions=2)` …"""
    with sshd_pool.lend() as start:
        yield start
