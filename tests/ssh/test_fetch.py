"""Files from workers: byte for byte, once, below the directory that the user names and nowhere else."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import resource
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sshd import OpensshWorker
from tui.errors import TpuTuiError, UsageError
from tui.ssh.fetch.destination import Destination
from tui.ssh.fetch.fetch_files import FetchedFile, fetch_files
from tui.ssh.fetch.remote_path import STAGING, RemoteFile, RemotePattern, place_files
from tui.ssh.fleet import Fleet

Start = Callable[..., OpensshWorker]

AWKWARD: dict[bytes, bytes] = {
    b"train.log": b"| Training\n",
    b"empty": b"",
    b".hidden": b"a dot first",
    b"..odd": b"two dots first",
    b"-rf": b"a dash first\n",
    b'it\'s "quoted" $HOME `id` \\n': b"quotes",
    b"two\nlines\n": b"newline at the end of the name",
    "größe/日本.txt".encode(): b"unicode",
    b"bad\xff\xfe.bin": bytes(range(256)) * 1000,
    b"deep/er/and/deeper.py": b"\r\n\r\n",
    b"deep/.git/config": b"hidden folder",
    b"tab\there": b"\0\0\0",
    b"*": b"a star",
    b"[ab]": b"brackets",
    b"a": b"a letter",
}


def _write(root: Path, files: dict[bytes, bytes]) -> None:
    for name, data in files.items():
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _found(root: Path) -> dict[bytes, bytes]:
    return {os.fsencode(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def _answers(
    servers: Iterable[OpensshWorker], remotes: list[str], to: Path, **options: object
) -> list[FetchedFile | TpuTuiError]:
    workers = [replace(server.worker, index=index) for index, server in enumerate(servers)]
    async with Fleet(workers, next(iter(servers)).access()) as fleet:
        return [row async for row in fetch_files(fleet, fleet.workers, remotes, to, **options)]  # type: ignore[arg-type]


async def _fetch(
    servers: Iterable[OpensshWorker], remotes: list[str], to: Path, **options: object
) -> list[FetchedFile]:
    answers = await _answers(servers, remotes, to, **options)
    assert not [row for row in answers if isinstance(row, TpuTuiError)], answers
    return [row for row in answers if isinstance(row, FetchedFile)]


@pytest.mark.bash
@pytest.mark.parametrize("shell", ["dash", "bash"])
async def test_awkward_names_and_bytes_arrive_exactly_from_a_worker_with_only_coreutils(
    sshd: Start, tmp_path: Path, shell: str
) -> None:
    server = sshd(bare=True)
    sh = server.root / "bin/sh"
    sh.unlink()
    sh.symlink_to(f"/bin/{shell}")
    _write(server.home / "out", AWKWARD)
    (server.home / "out/linked").symlink_to("a")
    rows = await _fetch([server], ["out"], tmp_path / "to")
    expected = {**AWKWARD, b"linked": b"a letter"}
    assert _found(tmp_path / "to/out") == expected
    assert sorted(row.hash for row in rows) == sorted(hashlib.sha256(data).hexdigest() for data in expected.values())
    assert {row.bytes for row in rows} == {len(data) for data in expected.values()}
    assert all(not row.skipped for row in rows)
    assert not (tmp_path / "to" / os.fsdecode(STAGING)).exists()


async def test_a_second_fetch_skips_what_is_equal_and_copies_what_changed(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    _write(server.home, {b"out/same": b"same", b"out/new": b"old", b"out/none": b""})
    await _fetch([server], ["out/*"], tmp_path)
    (server.home / "out/new").write_bytes(b"new")
    rows = await _fetch([server], ["out/*"], tmp_path)
    assert {Path(row.path).name: row.skipped for row in rows} == {"same": True, "new": False, "none": True}
    assert _found(tmp_path) == {b"same": b"same", b"new": b"new", b"none": b""}


async def test_globs_are_expanded_by_the_worker_and_a_name_with_brackets_means_itself(
    sshd: Start, tmp_path: Path
) -> None:
    server = sshd()
    _write(server.home, {b"out/" + name: data for name, data in AWKWARD.items()})
    await _fetch([server], ["out/[ab]"], tmp_path / "literal")
    await _fetch([server], ["out/[!a-z]r*", "~/out/gr*/*.txt", f"{server.home}/out/b?d*"], tmp_path / "globs")
    assert set(_found(tmp_path / "literal")) == {b"[ab]"}
    assert set(_found(tmp_path / "globs")) == {b"-rf", "日本.txt".encode(), b"bad\xff\xfe.bin"}


async def test_a_name_that_several_workers_have_goes_below_a_directory_for_each(sshd: Start, tmp_path: Path) -> None:
    servers = [sshd() for _ in range(3)]
    for number, server in enumerate(servers):
        _write(server.home, {b"ckpt/shared": b"from %d" % number, b"ckpt/part-%d" % number: b"x"})
    _write(servers[0].home, {b"ckpt/mixed": b"a file"})
    _write(servers[1].home, {b"ckpt/mixed/inner": b"a directory", b"ckpt/worker-2/shared": b"sly"})
    await _fetch(servers, ["ckpt"], tmp_path)
    assert _found(tmp_path) == {
        **{b"worker-%d/ckpt/shared" % number: b"from %d" % number for number in range(3)},
        **{b"ckpt/part-%d" % number: b"x" for number in range(3)},
        b"worker-0/ckpt/mixed": b"a file",
        b"ckpt/mixed/inner": b"a directory",
        b"ckpt/worker-2/shared": b"sly",
    }


async def test_files_that_cannot_be_sent_are_named_and_the_rest_arrives(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    _write(server.home, {b"out/a": b"a"})
    os.mkfifo(server.home / "out/pipe")
    (server.home / "out/up").symlink_to("..")
    answers = await _answers([server], ["out", "nothing-*", "no such"], tmp_path)
    assert _found(tmp_path) == {b"out/a": b"a"}
    left_out, missing = [row for row in answers if isinstance(row, TpuTuiError)]
    assert "./out/pipe, ./out/up" in left_out.sentence
    assert left_out.worker == 0
    assert "no worker has nothing-*, no such" in missing.sentence
    assert isinstance(missing, UsageError)


async def test_a_file_is_continued_where_a_broken_connection_left_it(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    data = os.urandom(24_000_000)
    _write(server.home, {b"big": data, b"small": b"small"})
    received: list[int] = []
    cuts = iter((4_000_000, 11_000_000))
    limit = [next(cuts)]

    def cut(_worker: int, here: int, _total: int) -> None:
        received.append(here)
        if here > limit[0]:
            limit[0] = next(cuts, sys.maxsize)
            server.cut()

    rows = await _fetch([server], ["big", "small"], tmp_path, on_received=cut)
    assert limit == [sys.maxsize]
    assert _found(tmp_path) == {b"big": data, b"small": b"small"}
    assert received == sorted(received), "nothing was received twice"
    assert not any(row.skipped for row in rows)


async def test_the_next_fetch_continues_a_file_that_was_interrupted(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    data = os.urandom(16_000_000)
    _write(server.home, {b"big": data})
    enough = asyncio.Event()

    def notice(_worker: int, here: int, _total: int) -> None:
        if here > 1_000_000:
            enough.set()

    first = asyncio.ensure_future(_fetch([server], ["big"], tmp_path, on_received=notice))
    await enough.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert not (tmp_path / "big").exists()
    received: list[int] = []
    await _fetch([server], ["big"], tmp_path, on_received=lambda _, here, __: received.append(here))
    assert received[0] > 1_000_000
    assert (tmp_path / "big").read_bytes() == data


async def test_an_incomplete_file_of_other_content_is_begun_again(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    _write(server.home, {b"big": b"new content"})
    with Destination(tmp_path) as destination:
        file = destination.make_incomplete(0, b"./big")
        file.append(b"old")
        file.close()
    await _fetch([server], ["big"], tmp_path)
    assert (tmp_path / "big").read_bytes() == b"new content"


async def test_a_log_that_grows_meanwhile_arrives_at_its_listed_size(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    start = b"line\n" * 1_000_000
    _write(server.home, {b"log": start})

    def grow(*_: int) -> None:
        with (server.home / "log").open("ab") as log:
            log.write(b"more\n")

    await _fetch([server], ["log"], tmp_path, on_received=grow)
    assert (tmp_path / "log").read_bytes() == start


async def test_a_file_that_keeps_changing_is_named_and_never_written(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    _write(server.home, {b"checkpoint": b"x" * 3_000_000, b"other": b"other"})

    def shrink(*_: int) -> None:
        (server.home / "checkpoint").write_bytes(os.urandom(1_000_000))

    answers = await _answers([server], ["checkpoint", "other"], tmp_path, on_received=shrink)
    (problem,) = [row for row in answers if isinstance(row, TpuTuiError)]
    assert problem.sentence == "worker 0: not fetched: checkpoint: it changes while it is read"
    assert problem.exit_code == 1
    assert _found(tmp_path) == {b"other": b"other"}


async def test_memory_does_not_grow_with_a_file(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    with (server.home / "big").open("wb") as file:
        file.truncate(300_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await _fetch([server], ["big"], tmp_path)
    assert (tmp_path / "big").stat().st_size == 300_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 * 1024, "KiB"


@pytest.mark.parametrize(
    "name",
    [b"./../escaped", b"/etc/passwd", b"./out/../../escaped", b"./out//x", b"./.bashrc", b"./other", b"./out/.", b""],
)
async def test_a_name_that_was_not_requested_is_refused(
    sshd: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    server = sshd()
    _write(server.home, {b"out/a": b"a"})
    script = tmp_path / "sly.sh"
    listing = b"".join(b"\\%03o" % byte for byte in b"3\t" + name + b"\0\0")
    script.write_bytes(
        b'say() { printf \'@%s %s\\n\' "$tt_nonce" "$*"; }; tt_nonce=$1\n'
        b"say here; printf '" + listing + b"'; say listed; cat\n"
    )
    monkeypatch.setattr("tui.ssh.fetch.fetch_stream.SCRIPT", script)
    (answer, *more) = await _answers([server], ["out"], tmp_path / "to")
    assert isinstance(answer, TpuTuiError)
    assert "its list of files is refused" in answer.sentence
    assert not [row for row in more if isinstance(row, FetchedFile)]
    assert _found(tmp_path / "to") == {}


@pytest.mark.parametrize(
    "flood",
    [
        b"while :; do printf '3\\t./out/a\\0'; done",
        b"printf '\\0'; while :; do say left special a socket; done",
        b"i=0; while :; do i=$((i + 1)); printf '3\\t./out/%0900d\\0' $i; done",
    ],
)
async def test_a_list_without_end_is_refused(
    sshd: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flood: bytes
) -> None:
    server = sshd()
    script = tmp_path / "flood.sh"
    script.write_bytes(b'say() { printf \'@%s %s\\n\' "$tt_nonce" "$*"; }; tt_nonce=$1\nsay here; ' + flood + b"\n")
    monkeypatch.setattr("tui.ssh.fetch.fetch_stream.SCRIPT", script)
    monkeypatch.setattr("tui.ssh.fetch.fetch_files.MAX_FILES", 2000)
    monkeypatch.setattr("tui.ssh.fetch.fetch_files.MAX_NAMES_BYTES", 1_000_000)
    (answer, *more) = await _answers([server], ["out"], tmp_path / "to")
    assert isinstance(answer, TpuTuiError)
    assert "its list of files is refused: too many files" in answer.sentence
    assert not [row for row in more if isinstance(row, FetchedFile)]


@pytest.mark.parametrize("answer", ["$tt_long", "here; printf '\\0'; say left special $tt_long; say listed"])
async def test_little_is_quoted_of_a_long_answer(
    sshd: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    script = tmp_path / "long.sh"
    script.write_text(
        'say() { printf \'@%s %s\\n\' "$tt_nonce" "$*"; }; tt_nonce=$1; '
        f"tt_long=$(head -c 60000 /dev/zero | tr '\\0' x)\nsay {answer}\n"
    )
    monkeypatch.setattr("tui.ssh.fetch.fetch_stream.SCRIPT", script)
    (problem,) = await _answers([sshd()], ["out"], tmp_path / "to")
    assert isinstance(problem, TpuTuiError)
    assert "xxx" in problem.sentence
    assert len(problem.sentence) < 400


@pytest.mark.parametrize("kind", ["directory", "file"])
async def test_a_link_below_the_directory_is_never_followed(sshd: Start, tmp_path: Path, kind: str) -> None:
    server = sshd()
    _write(server.home, {b"out/a": b"from the worker"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("precious")
    to = tmp_path / "to"
    to.mkdir()
    if kind == "directory":
        (to / "out").symlink_to(outside)
    else:
        (to / "out").mkdir()
        (to / "out/a").symlink_to(outside / "a")
    answers = await _answers([server], ["out"], to)
    assert (outside / "a").read_text() == "precious"
    if kind == "directory":
        (problem,) = answers
        assert isinstance(problem, TpuTuiError)
        assert "a link, file or directory is in its place" in problem.remedy
    else:
        assert (to / "out/a").read_bytes() == b"from the worker"
        assert not (to / "out/a").is_symlink()


async def test_a_directory_in_the_place_of_a_file_does_not_stop_the_others(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    _write(server.home, {b"out/a": b"a", b"out/b": b"b"})
    (tmp_path / "out/a/full").mkdir(parents=True)
    problem, row = await _answers([server], ["out"], tmp_path)
    assert isinstance(problem, TpuTuiError)
    assert "a link, file or directory is in its place" in problem.remedy
    assert isinstance(row, FetchedFile)
    assert (tmp_path / "out/b").read_bytes() == b"b"


async def test_a_worker_that_sends_nothing_is_named(
    sshd: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.ssh.fetch.fetch_stream.BEGIN_TIMEOUT_S", 1.0)
    server = sshd()
    (server.home / ".bashrc").write_text("sleep 600\n")
    (problem,) = await _answers([server], ["out"], tmp_path)
    assert isinstance(problem, TpuTuiError)
    assert "nothing came for 1 s" in problem.sentence
    assert problem.worker == 0


def test_a_directory_that_cannot_be_used_is_refused_and_not_kept_open(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(STAGING)).touch()
    with pytest.raises(UsageError, match="cannot be used"):
        Destination(tmp_path)
    assert tmp_path not in [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]


def test_a_directory_that_cannot_be_locked_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")  # as NFS does for a directory

    monkeypatch.setattr("tui.ssh.fetch.destination.fcntl.flock", refuse)
    with Destination(tmp_path):
        assert (tmp_path / os.fsdecode(STAGING)).is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away needs root")
def test_a_staging_directory_of_another_user_is_not_used(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(STAGING)).mkdir()
    os.chown(tmp_path / os.fsdecode(STAGING), 65534, 65534)
    with pytest.raises(UsageError, match="belongs to another user"):
        Destination(tmp_path)


async def test_two_fetches_into_one_directory_do_not_mix(sshd: Start, tmp_path: Path) -> None:
    with Destination(tmp_path), pytest.raises(UsageError, match="another fetch"):
        await _answers([sshd()], ["out"], tmp_path)


PART = st.sampled_from([b"a", b"A", b"b", b"worker-0", b"worker-1", STAGING])


@given(st.dictionaries(st.integers(0, 2), st.lists(st.lists(PART, min_size=1, max_size=3), max_size=6), max_size=3))
def test_no_two_files_have_the_same_place_and_none_lies_where_another_needs_a_directory(
    trees: dict[int, list[list[bytes]]],
) -> None:
    listings = {}
    for worker, paths in trees.items():
        files = {tuple(path) for path in paths}
        files = {one for one in files if not any(one != other and one == other[: len(one)] for other in files)}
        listings[worker] = [RemoteFile(b"./" + b"/".join(one), 1, one) for one in sorted(files)]
    places = place_files(listings)
    assert len(places) == sum(map(len, listings.values()))
    taken = list(places.values())
    assert len(set(taken)) == len(taken)
    for place in taken:
        assert place[0] != STAGING
        assert not any(other != place and place == other[: len(place)] for other in taken)


@pytest.mark.parametrize(
    ("pattern", "source", "parts"),
    [
        ("out", b"./out/a/b", (b"out", b"a", b"b")),
        ("out/", b"./out/a", (b"out", b"a")),
        ("a/*/c", b"./a/b/c", (b"c",)),
        ("/var/log/x", b"/var/log/x", (b"x",)),
        ("~/x", b"./x", (b"x",)),
        ("*.txt", b"./a\nb.txt", (b"a\nb.txt",)),
        (".*", b"./.bashrc", (b".bashrc",)),
        ("*", b"./.bashrc", None),
        ("*", b"./a/.bashrc", (b"a", b".bashrc")),
        ("[^a]", b"./b", (b"b",)),
        ("[^a]", b"./a", None),
        (r"\*", b"./*", (b"*",)),
        (r"\*", b"./a", None),
        ("out", b"out", None),
        ("out", b"./out/../x", None),
        ("../x", b"./../x", (b"x",)),
        ("../x", b"./../../x", None),
    ],
)
def test_a_listed_name_must_match_component_by_component(
    pattern: str, source: bytes, parts: tuple[bytes, ...] | None
) -> None:
    file = RemotePattern(pattern).match(source, 1)
    assert (file.parts if file else None) == parts


@pytest.mark.parametrize("pattern", [".", "..", "/", "~", "out/.", "a/.."])
def test_a_request_without_a_name_of_its_own_goes_below_the_worker(pattern: str) -> None:
    requested = RemotePattern(pattern)
    file = requested.match(requested.sent + b"/.bashrc", 1)
    assert file is not None
    assert place_files({3: [file]}) == {(3, file.source): (b"worker-3", b".bashrc")}


@pytest.mark.parametrize("pattern", ["", "~other/x", "[[:digit:]]"])
def test_a_request_that_cannot_be_checked_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        RemotePattern(pattern)
