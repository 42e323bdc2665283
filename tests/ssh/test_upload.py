"""Code that is sent to workers: the files that git would share, byte for byte, once."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.sshd import OpensshWorker
from tui.errors import UsageError, WorkerError
from tui.ssh.fleet import Fleet
from tui.ssh.sync.bundle import read_bundle
from tui.ssh.sync.source_tree import read_tree
from tui.ssh.sync.upload import SyncResult, code_directory, send_bundle, sync_tree

pytestmark = pytest.mark.timing

Start = Callable[..., OpensshWorker]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return an empty directory, to be filled and sent."""
    path = tmp_path / "source"
    path.mkdir()
    return path


def _awkward(root: Path) -> dict[bytes, bytes]:
    """Fill a directory with names and contents that shells get wrong; return its files by path."""
    files = {
        b"train.py": b"print('hello')\n",
        b"empty": b"",
        b"no newline at end": b"x",
        b"-rf": b"a dash first\n",
        b'it\'s "quoted" $HOME `id` \\n': b"quotes",
        b"two\nlines\n": b"newline in the name",
        "größe/日本.txt".encode(): b"unicode",
        b"bad\xff\xfe.bin": bytes(range(256)) * 1000,
        b"deep/er/and/deeper.py": b"\r\n\r\n",
        b"tab\there": b"\0\0\0",
        b"*": b"a star",
    }
    for path, data in files.items():
        full = root / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data)
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    os.symlink("./train.py", root / "link")  # noqa: PTH211 - a Path drops ./
    (root / "dangling").symlink_to("../nowhere 'at all'\n")
    return {**files, b"run.sh": b"#!/bin/sh\n"}


def _found(root: Path) -> dict[bytes, bytes]:
    return {
        os.fsencode(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def _sync(fleet: Fleet, directory: Path) -> list[SyncResult]:
    results = [result async for result in sync_tree(fleet, fleet.workers, directory)]
    assert not [result for result in results if isinstance(result, WorkerError)], results
    return [result for result in results if isinstance(result, SyncResult)]


async def _error_of(server: OpensshWorker, source: Path, fleet: type[Fleet] = Fleet) -> WorkerError:
    """Send a tree to a worker where that fails; return the error."""
    async with fleet([server.worker], server.access()) as workers:
        (error,) = [row async for row in sync_tree(workers, [0], source)]
    assert isinstance(error, WorkerError)
    assert error.worker == 0
    return error


async def test_awkward_names_and_bytes_arrive_exactly_on_a_worker_with_only_coreutils(
    sshd: Start, source: Path
) -> None:
    server = sshd(bare=True)
    files = _awkward(source)
    async with Fleet([server.worker], server.access()) as fleet:
        (result,) = await _sync(fleet, source)
    arrived = server.home / ".tpu-tui/code" / result.hash
    assert code_directory("~/.tpu-tui", result.hash) == f"~/.tpu-tui/code/{result.hash}"
    assert _found(arrived) == files
    assert result == SyncResult(0, read_tree(source).hash, sum(map(len, files.values())), skipped=False)
    assert os.readlink(arrived / "link") == "./train.py"  # noqa: PTH115
    assert (arrived / "dangling").readlink() == Path("../nowhere 'at all'\n")
    assert os.access(arrived / "run.sh", os.X_OK)
    assert not (arrived / "train.py").stat().st_mode & 0o111
    assert read_tree(arrived).hash == result.hash


@pytest.mark.parametrize("shell", ["dash", "bash"])
async def test_random_texts_and_bytes_arrive_exactly_under_any_sh(sshd: Start, source: Path, shell: str) -> None:
    server = sshd(bare=True)
    sh = server.root / "bin/sh"
    sh.unlink()
    sh.symlink_to(f"/bin/{shell}")
    chance = random.Random(7)
    alphabet = "ab \n\t'\"\\$`!%*\u0081\u0088äß日😀\n\n"
    for number in range(300):
        text = "".join(chance.choices(alphabet, k=chance.randrange(200)))
        (source / f"t{number}").write_bytes(text.encode())
        (source / f"b{number}").write_bytes(chance.randbytes(chance.randrange(50)))
    for number in range(256):
        (source / f"one{number}").write_bytes(bytes([number]) * 3)
    async with Fleet([server.worker], server.access()) as fleet:
        (result,) = await _sync(fleet, source)
    assert _found(server.home / ".tpu-tui/code" / result.hash) == _found(source)


async def test_progress_grows_to_the_total_for_each_worker(sshd: Start, tmp_path: Path) -> None:
    servers = [sshd() for _ in range(2)]
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "big").write_bytes(os.urandom(1_000_000))
    progress: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    async with Fleet([server.worker for server in servers], servers[0].access()) as fleet:
        results = sync_tree(fleet, (0, 1), tree, on_sent=lambda worker, *reports: progress[worker].append(reports))
        assert [result async for result in results]
    for reports in progress.values():
        assert len(reports) > 5
        assert [sent for sent, _ in reports] == sorted(sent for sent, _ in reports)
        assert reports[-1][0] == reports[-1][1] >= 1_000_000


async def test_a_second_sync_sends_nothing(sshd: Start, source: Path) -> None:
    servers = [sshd(), sshd()]
    (source / "a").write_bytes(b"a")
    async with Fleet([server.worker for server in servers], servers[0].access()) as fleet:
        assert [(row.skipped, row.bytes) for row in await _sync(fleet, source)] == [(False, 1)] * 2
        assert [(row.skipped, row.bytes) for row in await _sync(fleet, source)] == [(True, 0)] * 2


async def test_a_copy_that_was_tampered_with_is_replaced(sshd: Start, source: Path) -> None:
    server = sshd()
    (source / "a").write_bytes(b"a")
    async with Fleet([server.worker], server.access()) as fleet:
        (first,) = await _sync(fleet, source)
        copy = server.home / ".tpu-tui/code" / first.hash / "a"
        copy.write_bytes(b"b")
        (second,) = await _sync(fleet, source)
    assert not second.skipped
    assert copy.read_bytes() == b"a"


async def test_workers_that_share_a_home_do_not_disturb_each_other(sshd: Start, source: Path) -> None:
    server = sshd()
    files = _awkward(source)
    again = [replace(server.worker, index=index) for index in range(6)]
    async with Fleet(again, server.access()) as fleet:
        results = await _sync(fleet, source)
    assert len(results) == 6
    code = server.home / ".tpu-tui/code"
    assert _found(code / results[0].hash) == files
    assert sorted(path.name for path in code.iterdir()) == sorted([results[0].hash, f"{results[0].hash}.sha256"])


async def test_a_worker_that_cannot_write_is_reported(sshd: Start, source: Path) -> None:
    server = sshd()
    (server.home / ".tpu-tui").write_text("a file where a directory should be")
    (source / "a").write_bytes(b"a")
    error = await _error_of(server, source)
    assert "cannot make" in error.why


@pytest.mark.parametrize(
    "chatter",
    [
        "echo '@1234 have'; echo welcome; echo noise >&2",
        "printf '\\033]0;a title\\007'",
        "head -c 200000 /dev/urandom",
        "i=0; while [ $((i+=1)) -lt 500 ]; do echo; done",
    ],
)
async def test_a_shell_that_prints_a_lot_or_half_a_line_does_no_harm(sshd: Start, source: Path, chatter: str) -> None:
    server = sshd()
    (server.home / ".bashrc").write_text(f"{chatter}\n")
    (source / "a").write_bytes(b"a")
    async with Fleet([server.worker], server.access()) as fleet:
        (result,) = await _sync(fleet, source)
    assert (server.home / ".tpu-tui/code" / result.hash / "a").read_bytes() == b"a"


@pytest.mark.parametrize("start_up", ["read line", "exec sh", "sleep 600"])
async def test_a_shell_that_keeps_the_code_from_arriving_is_named(
    sshd: Start, source: Path, monkeypatch: pytest.MonkeyPatch, start_up: str
) -> None:
    monkeypatch.setattr("tui.ssh.sync.upload.BEGIN_TIMEOUT_S", 1.5)
    error = await _refused_by(sshd(), source, start_up, Fleet)
    assert "for 1.5 s" in error.why
    assert "start-up files" in error.remedy


class _EndedFleet(Fleet):
    """A fleet whose commands have ended before anything is sent to them, as happens on a busy machine."""

    async def process(self, index: int, command: str) -> asyncssh.SSHClientProcess[bytes]:
        process = await super().process(index, command)
        await process.wait_closed()
        return process


@pytest.mark.parametrize("fleet", [Fleet, _EndedFleet])
async def test_a_shell_that_ends_before_the_code_arrives_is_named(
    sshd: Start, source: Path, fleet: type[Fleet]
) -> None:
    error = await _refused_by(sshd(), source, "exit 3", fleet)
    assert "broke off" in error.why
    assert "start-up files" in error.remedy


async def _refused_by(server: OpensshWorker, source: Path, start_up: str, fleet: type[Fleet]) -> WorkerError:
    """Send a tree to a worker whose login shell has this start-up file; return the error."""
    (server.home / ".bashrc").write_text(f"{start_up}\n")
    (source / "a").write_bytes(b"a")
    return await _error_of(server, source, fleet)


async def test_a_shell_that_prints_without_end_is_named(
    sshd: Start, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.ssh.sync.upload.MAX_CHATTER_BYTES", 10_000)
    server = sshd()
    (server.home / ".bashrc").write_text("yes\n")
    error = await _error_of(server, source)
    assert "prints too much" in error.why
    assert "~/.bashrc" in error.remedy


async def test_a_worker_that_stops_reading_the_code_is_named(
    sshd: Start, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.ssh.sync.upload.PROGRESS_TIMEOUT_S", 1.0)
    monkeypatch.setattr("tui.ssh.sync.upload.COMPLAINT_TIMEOUT_S", 0.5)
    server = sshd()
    stuck = server.root / "stuck"
    stuck.mkdir()
    (stuck / "head").write_text('#!/bin/sh\ncase $2 in ???????*) exec sleep 600 ;; esac\nexec /usr/bin/head "$@"\n')
    (stuck / "head").chmod(0o755)
    (server.home / ".bashrc").write_text(f"PATH={stuck}:$PATH\n")
    (source / "a").write_bytes(random.Random(1).randbytes(8_000_000))
    error = await _error_of(server, source)
    assert "no progress for 1 s" in error.why


@pytest.mark.parametrize(
    ("now", "why"),
    [(b"short", "became shorter"), (b"y" * 90_000, "not what was sent"), (None, "a can no longer be read here")],
)
async def test_a_file_that_changes_during_the_upload_is_refused(
    sshd: Start, source: Path, now: bytes | None, why: str
) -> None:
    server = sshd()
    (source / "a").write_bytes(b"x" * 90_000)
    bundle = read_bundle(source)
    (source / "a").unlink()
    if now is not None:
        (source / "a").write_bytes(now)
    async with Fleet([server.worker], server.access()) as fleet:
        (error,) = [row async for row in send_bundle(fleet, [0], bundle)]
        assert isinstance(error, WorkerError)
        assert why in error.why
        assert error.remedy.startswith("sync again")
        assert not (server.home / ".tpu-tui/code" / bundle.tree.hash).exists()
        (result,) = await _sync(fleet, source)
    assert not result.skipped


async def test_the_workers_error_for_a_file_that_cannot_be_written_is_quoted(sshd: Start, source: Path) -> None:
    server = sshd()
    (server.home / ".bashrc").write_text("ulimit -f 4\n")
    (source / "a").write_bytes(b"x" * 3_000_000)
    (source / "b").write_bytes(b"y" * 3_000_000)
    error = await _error_of(server, source)
    assert "could not be written" in error.why
    assert "size limit" in error.why.lower()
    assert list((server.home / ".tpu-tui/code").iterdir()) == []


def _git(root: Path, *argv: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(root), *identity, *argv], check=True, capture_output=True)


def _paths(root: Path) -> set[bytes]:
    return {entry.path for entry in read_tree(root).entries}


def test_git_decides_which_files_belong_to_the_code(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    for name in ("tracked", "deleted", "new", "ignored.log", "sub/inner"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("*.log\n")
    _git(tmp_path, "add", "tracked", "deleted", ".gitignore")
    _git(tmp_path, "commit", "-qm", "x")
    (tmp_path / "deleted").unlink()
    assert _paths(tmp_path) == {b"tracked", b"new", b".gitignore", b"sub/inner"}
    assert _paths(tmp_path / "sub") == {b"inner"}


def test_a_nested_repository_is_read_by_its_own_rules(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    inner = tmp_path / "inner"
    inner.mkdir()
    _git(inner, "init", "-q")
    (inner / "code.py").write_text("x")
    (inner / "out").write_text("x")
    (inner / ".gitignore").write_text("out\n")
    assert _paths(tmp_path) == {b"inner/code.py", b"inner/.gitignore"}


@pytest.mark.parametrize("name", [b"../keys/id", b"/.../keys/id", b"..", b".git/config", b"link/id"])
def test_no_path_that_a_repository_claims_to_have_leads_out_of_it(tmp_path: Path, name: bytes) -> None:
    root, keys = tmp_path / "code", tmp_path / "keys"
    name = name.replace(b"/...", os.fsencode(tmp_path))
    honest = "x" * len(name)
    for path in (keys / "id", root / honest, root / "train.py"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("private")
    _git(root, "init", "-q")
    _git(root, "add", ".")
    index = (root / ".git/index").read_bytes()[:-20].replace(honest.encode(), name)
    (root / ".git/index").write_bytes(index + hashlib.sha1(index).digest())
    (root / honest).unlink()
    (root / "link").symlink_to(keys)
    assert _paths(root) == {b"train.py", b"link"}


def test_no_program_that_a_repository_names_is_run(tmp_path: Path) -> None:
    for path in (tmp_path / "away/x", tmp_path / "here/y"):
        path.parent.mkdir()
        path.write_text("x")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "x")
    _git(tmp_path, "sparse-checkout", "init", "--cone", "--sparse-index")
    _git(tmp_path, "sparse-checkout", "set", "here")
    tree = subprocess.check_output(["git", "-C", str(tmp_path), "rev-parse", "HEAD:away"], text=True).strip()
    (tmp_path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    config = {"url": str(tmp_path), "promisor": "true", "uploadpack": f"touch {tmp_path}/ran; false"}
    options = {"core.repositoryformatversion": "1", "extensions.partialClone": "origin"}
    options |= {f"remote.origin.{name}": value for name, value in config.items()}
    for name, value in (options | {"core.fsmonitor": f"touch {tmp_path}/ran"}).items():
        _git(tmp_path, "config", name, value)
    assert _paths(tmp_path) == {b"here/y"}
    assert not (tmp_path / "ran").exists()


def test_without_git_caches_and_virtual_environments_are_left_out(tmp_path: Path) -> None:
    for name in ("a.py", "__pycache__/a.pyc", ".venv/pyvenv.cfg", ".venv/lib/x", "cache/CACHEDIR.TAG", "pkg/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty").mkdir()
    assert _paths(tmp_path) == {b"a.py", b"pkg/b.py", b"empty"}


@pytest.mark.parametrize("change", ["bytes", "name", "mode", "link"])
def test_the_hash_depends_on_every_change_and_on_nothing_else(tmp_path: Path, change: str) -> None:
    for root in (tmp_path / "a", tmp_path / "b"):
        root.mkdir()
        (root / "f").write_text("one")
        (root / "l").symlink_to("f")
    assert read_tree(tmp_path / "a").hash == read_tree(tmp_path / "b").hash
    b = tmp_path / "b"
    if change == "bytes":
        (b / "f").write_text("two")
    elif change == "name":
        (b / "f").rename(b / "g")
    elif change == "mode":
        (b / "f").chmod(0o755)
    else:
        (b / "l").unlink()
        (b / "l").symlink_to("g")
    assert read_tree(tmp_path / "a").hash != read_tree(b).hash


def test_a_directory_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        read_tree(tmp_path / "nowhere")
