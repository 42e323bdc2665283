"""`cores` and `logs` on files: what they print, and what they can do without."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.logs.shapes import SAMPLE_LOG, generated_log


def run(*words: str, home: Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "TPU_TUI_HOME": str(home)}
    command = [sys.executable, "-m", "tui.cli", *words]
    return subprocess.run(command, input=given, env=environ, capture_output=True, check=False, timeout=120)


def test_one_workers_lines_are_those_that_grep_finds_byte_for_byte(tmp_path: Path) -> None:
    found = run("logs", str(SAMPLE_LOG), "--worker", "1", home=tmp_path)
    lines = SAMPLE_LOG.read_bytes().splitlines(keepends=True)
    assert found.stdout == b"".join(line for line in lines if b" 10.164.0.109 [1] " in line)
    ending = run("logs", str(SAMPLE_LOG), "--worker", "1", "--tail", "2", home=tmp_path)
    assert found.stdout.endswith(ending.stdout)
    assert ending.stdout.count(b"\n") == 2


def test_what_is_piped_in_is_a_log_too(tmp_path: Path) -> None:
    piped = run("cores", "-", "--json", home=tmp_path, given=SAMPLE_LOG.read_bytes())
    assert piped.stdout == run("cores", str(SAMPLE_LOG), "--json", home=tmp_path).stdout
    assert len(json.loads(piped.stdout)) == 16


def test_of_a_packed_log_that_is_cut_off_the_rows_are_printed_and_the_rest_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut.log.gz"
    path.write_bytes(gzip.compress(generated_log(40_000, 8))[:-5000])
    answer = run("cores", str(path), "--json", home=tmp_path)
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
