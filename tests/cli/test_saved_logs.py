"""`cores`, `logs` and other commands on saved logs: what they print, and what they do not need."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.cli.commands import Shell
from tests.logs.shapes import SAMPLE_LOG, generated_log, training
from tests.stores import needs_store
from tui.cloud.storage.buckets import Buckets, parse_url
from tui.commands.parser.parser import parse
from tui.localpod.bucket.bucket import Bucket
from tui.logs.files.line_filter import BLOCK_BYTES
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory
from tui.settings import Settings


def run(*words: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    answer = Shell(home).call(*words)
    return subprocess.CompletedProcess(words, answer.code, answer.raw, answer.errors.encode())


def run_apart(*words: str, home: Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    environ = {**os.environ, "TPU_TUI_HOME": str(home)}
    command = [sys.executable, "-m", "tui.cli", *words]
    return subprocess.run(command, input=given, env=environ, capture_output=True, check=False, timeout=120)


def test_one_workers_lines_are_those_that_grep_finds_byte_for_byte(tmp_path: Path) -> None:
    found = run_apart("logs", str(SAMPLE_LOG), "--worker", "1", home=tmp_path)
    lines = SAMPLE_LOG.read_bytes().splitlines(keepends=True)
    assert found.stdout == b"".join(line for line in lines if b" 10.164.0.109 [1] " in line)
    ending = run("logs", str(SAMPLE_LOG), "--worker", "1", "--tail", "2", home=tmp_path)
    assert found.stdout.endswith(ending.stdout)
    assert ending.stdout.count(b"\n") == 2


def test_a_terminal_shows_lines_and_characters_whole_wherever_the_blocks_of_a_log_end(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    line = "é" * 99
    count = 3 * BLOCK_BYTES // 2 // len(f"{line}\n".encode())
    log.write_text(f"{line}\n" * count + "end\x1b[0m")
    controller, device = os.openpty()
    with (
        os.fdopen(controller, "rb", buffering=0) as screen,
        Shell(tmp_path).start("logs", str(log), stdout=device) as process,
    ):
        os.close(device)
        shown = _all_of(screen).decode()
    assert process.returncode == 0
    assert Counter(shown.split("\r\n")) == {line: count, "end␛[0m": 1, "": 1}


def _all_of(screen: io.FileIO) -> bytes:
    """Read what a terminal shows until no process has it open."""
    shown = b""
    with contextlib.suppress(OSError):
        while data := screen.read(65536):
            shown += data
    return shown


def test_a_worker_can_be_named_by_its_address(tmp_path: Path) -> None:
    by_number, by_address = (
        run("logs", str(SAMPLE_LOG), "--worker", worker, home=tmp_path).stdout for worker in ("1", "10.164.0.109")
    )
    assert by_address == by_number != b""
    rows = json.loads(run("cores", str(SAMPLE_LOG), "--worker", "10.164.0.109", "--json", home=tmp_path).stdout)
    assert rows
    assert {(row["worker"], row["address"]) for row in rows} == {(1, "10.164.0.109")}
    assert rows == json.loads(run("cores", str(SAMPLE_LOG), "--worker", "1", "--json", home=tmp_path).stdout)
    unknown = run("logs", str(SAMPLE_LOG), "--worker", "10.9.9.9", home=tmp_path)
    assert unknown.returncode == 2
    assert b"has no worker at 10.9.9.9" in unknown.stderr


def test_standard_input_is_read_as_a_log(tmp_path: Path) -> None:
    piped = run_apart("cores", "-", "--json", home=tmp_path, given=SAMPLE_LOG.read_bytes())
    assert piped.stdout == run("cores", str(SAMPLE_LOG), "--json", home=tmp_path).stdout
    assert len(json.loads(piped.stdout)) == 16


def test_a_selection_without_lines_is_reported_with_the_workers_and_cores_there_are(tmp_path: Path) -> None:
    wrong = {
        ("--worker", "99"): f"No lines of worker 99 in {SAMPLE_LOG} (it has workers 0-3).",
        ("--core", "9999"): f"No lines about core 9999 in {SAMPLE_LOG} (it has cores 0-2,6-15,20,22-23).",
        ("--worker", "1", "--core", "0"): f"No matching lines in {SAMPLE_LOG}.",
        ("--since", "2100-01-01"): f"No matching lines in {SAMPLE_LOG}.",
    }
    for words, message in wrong.items():
        expected = f"{message}\n".encode()
        empty = run("logs", str(SAMPLE_LOG), *words, home=tmp_path)
        assert (empty.returncode, empty.stdout) == (0, b"")
        assert empty.stderr == expected
        assert run("logs", str(SAMPLE_LOG), *words, "--json", home=tmp_path).stderr == expected
    assert run("logs", str(SAMPLE_LOG), "--tail", "0", home=tmp_path).stderr == b""


def test_no_worker_is_invented_for_a_log_that_names_none(tmp_path: Path) -> None:
    log = tmp_path / "plain.log"
    log.write_text("hello\n")
    assert (
        b"No lines of worker 0 in %b (no line names a worker).\n" % bytes(log)
        == run("logs", str(log), "--worker", "0", home=tmp_path).stderr
    )
    assert (
        b"No lines about core 0 in %b (no line names a core).\n" % bytes(log)
        == run("logs", str(log), "--core", "0", home=tmp_path).stderr
    )


def test_a_dangling_link_and_an_empty_standard_input_are_reported(tmp_path: Path) -> None:
    link = tmp_path / "dangling.log"
    link.symlink_to("gone.log")
    printed = run("dialect", "test", str(link), home=tmp_path)
    assert b"it is a link to gone.log, which is not there" in printed.stderr
    nothing = subprocess.run(
        [sys.executable, "-m", "tui.cli", "cores", "-"],
        env={**os.environ, "TPU_TUI_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert b"nothing is piped in: standard input is a terminal or another device" in nothing.stderr
    assert (printed.returncode, nothing.returncode) == (2, 2)


def test_a_log_that_no_dialect_understands_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "plain.log"
    log.write_text("hello\n")
    answer = run("dialect", "test", str(log), home=tmp_path)
    assert (answer.returncode, answer.stdout) == (0, b"")
    assert answer.stderr == b"1 line\nNo dialect understands any of these lines.\n"


def test_a_report_and_a_comparison_read_standard_input(tmp_path: Path) -> None:
    log = SAMPLE_LOG.read_bytes()
    report = run_apart("report", "-", "--format", "json", "--out", str(tmp_path), home=tmp_path, given=log)
    assert report.returncode == 0, report.stderr
    assert len(json.loads((tmp_path / "stdin.json").read_text())["cores"]) == 16
    compared = run_apart("compare", "-", str(SAMPLE_LOG), "--json", home=tmp_path, given=log)
    first, second = json.loads(compared.stdout)
    assert first["rate_total"] == second["rate_total"]


def test_the_rows_of_a_truncated_gzip_log_are_printed_and_the_truncation_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "cut.log.gz"
    path.write_bytes(gzip.compress(generated_log(40_000, 8))[:-5000])
    answer = run_apart("cores", str(path), "--json", home=tmp_path)
    assert len(json.loads(answer.stdout)) == 8
    assert b"to its end" in answer.stderr
    assert answer.returncode == 2


def test_a_saved_log_is_read_without_an_event_loop_and_opened_again_without_numpy(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_bytes(SAMPLE_LOG.read_bytes())
    os.utime(path, (1.0, 1.0))
    program = (
        "import sys; from tui.cli import main; code = main(sys.argv[2:]);"
        "assert 'asyncio' not in sys.modules; assert ('numpy' in sys.modules) == (sys.argv[1] == 'first');"
        "sys.exit(code)"
    )
    environ = {**os.environ, "TPU_TUI_HOME": str(tmp_path)}
    for turn in ("first", "second"):
        subprocess.run(
            [sys.executable, "-c", program, turn, "cores", str(path)], env=environ, check=True, timeout=120
        )


@needs_store
async def test_a_log_in_a_bucket_is_named_by_its_address(tmp_path: Path) -> None:
    server = Bucket(tmp_path / "store", name="logs")
    await server.start(os.environ)
    home = tmp_path / "home"
    packed = tmp_path / "out.log.gz"
    packed.write_bytes(gzip.compress(SAMPLE_LOG.read_bytes()))
    store = Buckets(Settings(home=home, endpoints={"storage": server.endpoint}))
    await store.upload(packed, parse_url("gs://logs"))
    await store.close()
    profile = home / "profiles" / "default.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text(f'[endpoints]\nstorage = "{server.endpoint}"\n')
    profile.chmod(0o600)

    async def answer(*words: str) -> subprocess.CompletedProcess[bytes]:
        return await asyncio.to_thread(partial(run_apart, *words, home=home))

    url = "gs://logs/out.log.gz"
    try:
        cores = await answer("cores", url, "--json")
        assert cores.stdout == run_apart("cores", str(SAMPLE_LOG), "--json", home=home).stdout
        lines = await answer("logs", url, "--worker", "1")
        assert lines.stdout == run_apart("logs", str(SAMPLE_LOG), "--worker", "1", home=home).stdout
        tried = await answer("dialect", "test", url, "--json")
        assert json.loads(tried.stdout)["file"] == url
        printed = await answer("report", url, "--format", "txt", "--out", str(home), "--json")
        assert json.loads(printed.stdout) == {"files": [str(home / "out.log.gz.txt")]}
        missing = await answer("cores", "gs://logs/none.log")
        assert (missing.returncode, missing.stdout) == (2, b"")
        assert b"there is no such object" in missing.stderr
    finally:
        await server.close()
    cached = await answer("cores", url, "--json")
    assert cached.stdout == cores.stdout
    assert cached.returncode == 3
    assert b"may have changed since" in cached.stderr
    assert (await answer("cores", url, "--json", "--offline")).returncode == 0


def test_last_is_the_newest_run_and_a_file_of_that_name_needs_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "last").write_text(training(core=7, step=1) + "\n")
    for words in (("cores",), ("logs",), ("report",)):
        assert run(*words, "last", home=home).returncode == 0  # no run yet: it can only be the file
    directory = RunDirectory.create(
        home / "runs", Run(id="pod-20260102-000000-aaaa", slice="pod", job=JobOptions(("x",)), workers=(Worker(0),))
    )
    directory.log_path(0).write_text(training(core=3, step=1) + "\n")
    for ref, core in (("last", 3), ("./last", 7)):
        assert f"/{core} ".encode() in run("logs", ref, "--offline", home=home).stdout
    assert json.loads(run("cores", "./last", "--json", home=home).stdout)[0]["core"] == 7
    assert json.loads(run("cores", "last", "--offline", "--json", home=home).stdout) == []  # nothing has arrived yet


@pytest.mark.parametrize(
    "words",
    [
        ("cores", ""),
        ("compare", "a", ""),
        ("replay", ""),
        ("report", "a", "--upload", ""),
        ("report", "a", "--out", ""),
        ("check", "pod", "--bucket", ""),
        ("sync", "pod", ""),
        ("slices", "create", "pod", "--version", "v2-alpha", "--type", ""),
        *((option, "", "runs") for option in ("--hosts", "--identity", "--known-hosts")),
        *(("launch", "pod", option, "", "--", "true") for option in ("--name", "--venv", "--conda-env", "--workdir")),
    ],
    ids=lambda words: " ".join(filter(None, words)),
)
def test_an_empty_word_is_not_taken_for_a_missing_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert "must not be empty" in capsys.readouterr().err
