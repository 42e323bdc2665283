"""Real OpenSSH servers on loopback: what every test that needs a worker logs in to."""

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

from tui.pod.worker import Worker
from tui.ssh.config.access import Access

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
START_SECONDS = 20.0
MARK = "TPU_TUI_TEST_SSHD"
BARE_PACKAGES = ("coreutils", "util-linux", "dash")
"""A bare worker has nothing but these on its PATH."""

MISSING = (
    f"no OpenSSH server ({SSHD}): apt-get install openssh-server"
    if not Path(SSHD).exists()
    else "an OpenSSH server that runs commands needs root"
    if os.geteuid() != 0
    else ""
)
needs_sshd = pytest.mark.skipif(bool(MISSING), reason=MISSING or "an OpenSSH server is here")


@dataclass
class OpensshWorker:
    """One running sshd: where it listens, how to log in, and the home its commands see.

    `home` is HOME in its sessions (they still begin in the account's own directory, as sshd has it).
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

    @property
    def worker(self) -> Worker:
        """The noun, with its host key vouched for."""
        return Worker(
            index=self.index,
            hostname=f"t1v-n-test-w-{self.index}",
            internal_ip=self.host,
            port=self.port,
            user=self.user,
            host_keys=(self.host_key,),
        )

    @property
    def stranger(self) -> Worker:
        """The same worker with a host key that nobody vouches for."""
        return replace(self.worker, host_keys=())

    def access(self, **changes: Any) -> Access:
        """What logs in here: the tests' key, no agent, none of the machine's own files."""
        values: dict[str, Any] = {
            "user": self.user,
            "identity": str(self.identity),
            "own_known_hosts": str(self.root / "own_known_hosts"),
        }
        return Access(**{**values, **changes})

    @property
    def log(self) -> str:
        """What the server itself wrote so far."""
        return (self.root / "sshd.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process = subprocess.Popen(
            [SSHD, "-D", "-f", str(self.config), "-E", str(self.root / "sshd.log")],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self.host, self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start: {self.log}")
            time.sleep(0.02)

    def connections(self) -> list[int]:
        """The server's processes, one a connection, the listener left out."""
        return [] if self.process is None else [pid for pid in _children(self.process.pid) if _is_sshd(pid)]

    def cut(self) -> None:
        """Kill every connection at once, as a broken network would; the server goes on listening."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop every connection's server side, as a worker that hangs would; `thaw` undoes it."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let frozen connections go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for connection in self.connections():
            for pid in (*filter(_is_sshd, _children(connection)), connection):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def stop(self) -> None:
        """Kill the server and its connections; jobs that detached themselves stay."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGSTOP)  # or a connection that it takes just now would outlive it
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.process.pid, os.WUNTRACED)
        self.cut()
        self.process.kill()
        self.process.wait()
        self.process = None

    def clear(self) -> None:
        """Kill every process that was started through this server, detached or not."""
        mine = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mine in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), 9)


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_sshd(pid: int) -> bool:
    """Whether a process is a living sshd, and not a command that it runs."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return False
    return name.startswith("sshd") and rest.split()[0] != "Z"


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1) as sock:
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False


def free_port(host: str = "127.0.0.1") -> int:
    """A loopback port that nothing listens on now."""
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> str:
    """Write a key pair with ssh-keygen; the public line comes back."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return path.with_name(path.name + ".pub").read_text().strip()


def bare_path(directory: Path) -> str:
    """A directory that holds only the programs of coreutils, util-linux and sh, fit to be a PATH."""
    bin_ = directory / "bin"
    bin_.mkdir()
    for name, program in bare_programs().items():
        (bin_ / name).symlink_to(program)
    return str(bin_)


@functools.cache
def bare_programs(packages: tuple[str, ...] = BARE_PACKAGES) -> dict[str, str]:
    """Name and place of each program of these Debian packages, and of sh."""
    listing = subprocess.run(["dpkg", "-L", *packages], check=True, capture_output=True, text=True).stdout
    found = {"sh": "/bin/sh"}
    for program in map(Path, listing.splitlines()):
        if program.parent.name in ("bin", "sbin") and program.is_file():
            found.setdefault(program.name, str(program))
    return found


def has_bare_path(directory: Path) -> bool:
    """Whether what `bare_path` made is still all that is there."""
    there = (directory / "bin").iterdir()
    return {path.name: str(path.readlink()) if path.is_symlink() else "" for path in there} == bare_programs()


def _version() -> tuple[int, int]:
    text = subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr
    match = re.search(r"OpenSSH_(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@contextlib.contextmanager
def openssh_worker(
    tmp_path: Path,
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
    """A real sshd of its own for as long as the context lasts; skips where there is no sshd or no root.

    Servers made in the same `tmp_path` let the same key in, so one access logs in to all of them.

    `extra` are lines put first in sshd_config (the first value of a keyword wins), `bare` leaves only coreutils,
    util-linux and sh on PATH, `environment` adds variables to every session.
    """
    if MISSING:
        pytest.skip(MISSING)
    root = Path(tmp_path) / f"sshd-{index}-{secrets.token_hex(3)}"
    home = root / "home"
    home.mkdir(parents=True)
    if user != "root":
        shutil.chown(home, user)
    host_key = make_key(root / "host_key", host_key_type)
    identity = Path(tmp_path) / "identity"
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
        f"PidFile {root / 'pid'}",
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
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.clear()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Callable[..., OpensshWorker]]:
    """Start as many servers as a test asks for: `sshd()`, `sshd(bare=True)`, `sshd(max_sessions=2)` …"""
    with contextlib.ExitStack() as stack:
        started: list[OpensshWorker] = []

        def start(**options: Any) -> OpensshWorker:
            options.setdefault("index", len(started))
            server = stack.enter_context(openssh_worker(tmp_path, **options))
            started.append(server)
            return server

        yield start
