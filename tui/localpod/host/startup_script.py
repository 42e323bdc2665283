"""A worker's startup script, run and reported as on a Compute Engine machine, but as the pod's own user.

The worker's own `journalctl` and `systemctl` answer for `google-startup-scripts.service`, with the messages of
guest-agent's `google_metadata_script_runner`. For any other unit, they call the machine's programs.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tui.localpod.host.host_spec import HostSpec
from tui.localpod.host.ssh_session import exit_code_of
from tui.pod.creation.machine_request import STARTUP_SCRIPT
from tui.pod.creation.startup_journal import UNIT

_SHELL = Path("/bin/bash")
_MAX_LINE_BYTES = 64 * 1024
"""bufio.MaxScanTokenSize: on a longer line, the real runner stops reading, too."""
_CHUNK_BYTES = 256 * 1024
_MAX_JOURNAL_BYTES = 1 << 20
"""The part of the script's output that is kept: when it reaches twice this size, the older half is removed."""
_SHIM = """#!/bin/sh
# Made by tpu-tui's local pod: answers about {unit} as systemd would.
case " $* " in
  *" {unit} "*)
    [ "${{0##*/}}" = journalctl ] || exec cat {state}
    lines=+1
    while [ $# -gt 0 ]; do case $1 in -n) lines=$2; shift ;; esac; shift; done
    exec tail -n "$lines" {journal} ;;
esac
PATH={path}
exec "${{0##*/}}" "$@"
"""


class StartupUnit:
    """The unit `google-startup-scripts.service` of one worker, in `directory`: its programs, state and journal."""

    def __init__(self, spec: HostSpec) -> None:
        self._script = spec.startup_script
        self._home = spec.home
        self._programs = spec.programs
        self._directory = self._programs.parent
        self._state = self._directory / "unit"
        self._journal = self._directory / "journal"
        self._begun_us = time.monotonic_ns() // 1000

    def begin(self, path: str) -> None:
        """Write the programs that answer for the unit, and record its start; `path` is the PATH without them."""
        self._programs.mkdir(mode=0o700, parents=True, exist_ok=True)
        state, journal = shlex.quote(str(self._state)), shlex.quote(str(self._journal))
        for name in ("journalctl", "systemctl"):
            program = self._programs / name
            program.write_text(_SHIM.format(unit=UNIT, state=state, journal=journal, path=shlex.quote(path)))
            program.chmod(0o700)
        self._journal.write_bytes(b"")
        self._note("Starting startup scripts (version local).")
        self._write_state("activating", code=0)

    async def run(self, environment: Mapping[str, str]) -> None:
        """Run the metadata's script, if there is one, and keep the end of its output in the journal.

        The machine keeps running even if the journal cannot be written, e.g. on a full disk.
        """
        try:
            if self._script.exists():
                self._note(f"Found {STARTUP_SCRIPT} in metadata.")
                self._note(await self._result(environment))
                self._note("Finished running startup scripts.")
            else:
                self._note("No startup scripts to run.")
            self._write_state("inactive", code=1)
        except OSError:
            traceback.print_exc()

    async def _result(self, environment: Mapping[str, str]) -> str:
        """Run the script to its end and return the runner's line about it."""
        directory = self._directory / "metadata-scripts"
        file = directory / STARTUP_SCRIPT
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            file.write_bytes(self._script.read_bytes().lstrip(b" \n\v\f\t\r"))
            file.chmod(0o700)
            process = self._start(file, environment)
            ended = exit_code_of(process)
            assert process.stdout is not None
            await self._keep_output(process.stdout)
            code = await ended
        except OSError as error:
            return f'Script "{STARTUP_SCRIPT}" failed with error: {error}'
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        if code == 0:
            return f"{STARTUP_SCRIPT} exit status 0"
        how = f"exit status {code}" if code > 0 else f"signal: {signal.strsignal(-code)}".lower()
        return f'Script "{STARTUP_SCRIPT}" failed with error: {how}'

    def _start(self, file: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(_SHELL), "-c", str(file)] if _SHELL.exists() else [str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._home,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )

    async def _keep_output(self, output: IO[bytes]) -> None:
        """Write each line of the output to the journal until the output ends or a line is too long."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), output
        )
        prefix = f"{STARTUP_SCRIPT}: ".encode()
        rest = b""
        try:
            while data := await reader.read(_CHUNK_BYTES):
                lines, newline, rest = (rest + data).rpartition(b"\n")
                if newline:
                    self._append(prefix + lines.replace(b"\n", b"\n" + prefix) + b"\n")
                if len(rest) >= _MAX_LINE_BYTES:
                    note = f'error while communicating with "{STARTUP_SCRIPT}" script: bufio.Scanner: token too long'
                    self._note(note)
                    return
            if rest:
                self._append(prefix + rest + b"\n")
        finally:
            transport.close()

    def _note(self, message: str) -> None:
        self._append(message.encode() + b"\n")

    def _append(self, messages: bytes) -> None:
        """Append to the journal; if it is too long, keep only its end."""
        if self._journal.stat().st_size + len(messages) > 2 * _MAX_JOURNAL_BYTES:
            end = (self._journal.read_bytes() + messages)[-_MAX_JOURNAL_BYTES:]
            _replace(self._journal, end.partition(b"\n")[2])
        else:
            with self._journal.open("ab") as file:
                file.write(messages)

    def _write_state(self, active: str, code: int) -> None:
        """Write the properties that `systemctl show` prints."""
        text = f"LoadState=loaded\nActiveState={active}\nExecMainCode={code}\nExecMainStatus=0\n"
        _replace(self._state, f"{text}ExecMainStartTimestampMonotonic={self._begun_us}\n".encode())


def _replace(file: Path, data: bytes) -> None:
    """Replace a file atomically, so that no reader sees an incomplete one."""
    fresh = file.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(file)
