"""What a worker's systemd and journal report about its startup script. Pure.

The messages are those of the programs that Compute Engine's images run as `google-startup-scripts.service`: a Python
one until 2020 (compute-image-packages, `metadata_scripts`); a Go one (guest-agent, `google_metadata_script_runner`)
whose message about a failure changed in 2024; and its successor from 2025 (google-guest-agent,
`gce_metadata_script_runner`), which reports success only with its last message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tui.pod.creation.slice_request import WorkerStartup

UNIT = "google-startup-scripts.service"
MOST_LINES = 200
"""Last lines of a script's output that are kept."""
_MOST_CHARACTERS = 500
"""Of one line."""

_RUNNER = r"(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d )?(?:google_metadata_script_runner: )?"
_LEVEL = r"(?:INFO |WARNING |ERROR )"
_BEGIN = re.compile(rf"{_RUNNER}{_LEVEL}?(?:Starting startup scripts|Running metadata script runner )")
_FOUND_NONE = re.compile(rf"{_RUNNER}{_LEVEL}?No startup scripts (?:to run|found in metadata)")
_RETURNED = re.compile(rf"{_LEVEL}startup-script: Return code (?P<code>-?\d{{1,3}})\.")
_OUTPUT = re.compile(
    rf'{_RUNNER}{_LEVEL}?(?:startup-script: |Metadata key\("startup-script"\), command\("[^"]*"\): ?'
    r'|(?=error while communicating with "startup-script" script: ))(?P<text>.*)'
)
"""Includes the error about a line that is too long, after which the runner stops reading and the script ends."""
_RESULT = re.compile(rf'{_RUNNER}(?:Script "startup-script" failed with error: |startup-script )(?P<result>.*)')
_EXIT_STATUS = re.compile(r"exit status (?P<code>\d{1,3})")
_END_IS_SUCCESS = re.compile(r"Finished running startup scripts")
"""The whole line of the newest program; the older ones end it with a period, after the exit status."""

_EXITED = "1"
"""CLD_EXITED of waitid(2), as in systemd's property ExecMainCode: the program was not killed, as in a shutdown."""


def parse_startup(worker: WorkerStartup, unit: Mapping[str, str], messages: Iterable[str]) -> WorkerStartup:
    """Return the state of a worker's startup script, from systemd's properties of the unit and its last messages.

    The messages are those since the last boot, without their times and the program's name.
    """
    code, failure, lines, any_message = _read(messages)
    state = replace(worker, exit_code=code, detail=failure, lines=lines, has_ended=code is not None or bool(failure))
    if state.has_ended:
        return state
    if unit.get("LoadState") in ("not-found", "masked"):
        return replace(state, has_ended=True, detail=f"the worker has no {UNIT}")
    unreadable = "" if any_message else "; its user cannot read the journal, and sudo needs a password"
    if unit.get("ExecMainCode") == _EXITED and unit.get("ActiveState") in ("inactive", "failed"):
        status = unit.get("ExecMainStatus", "")[:3]
        reason = "it has ended, but its exit code is not in the journal"
        detail = f"{reason}{unreadable}" if status == "0" else f"its runner ended with exit code {status}{unreadable}"
        return replace(state, has_ended=True, detail=detail)
    if unit.get("ActiveState") == "activating":
        return replace(state, detail=f"running{unreadable}")
    if unit.get("ExecMainCode") == "0":
        return replace(state, detail="not started yet")
    return replace(state, detail="it was killed; a restart may follow" if unit else "systemd does not answer there")


def _read(messages: Iterable[str]) -> tuple[int | None, str, tuple[str, ...], bool]:
    """Return exit code, failure and last lines of the newest execution, and whether there was any message."""
    code, failure, any_message = None, "", False
    lines: list[str] = []
    for message in messages:
        any_message = True
        if _BEGIN.match(message):
            code, failure, lines = None, "", []
        elif match := _RETURNED.fullmatch(message):
            code, failure = _result(f"exit status {match['code']}")
        elif match := _OUTPUT.match(message):
            lines.append(match["text"][:_MOST_CHARACTERS])
        elif match := _RESULT.match(message):
            code, failure = _result(match["result"])
        elif _FOUND_NONE.match(message):
            failure = "its metadata has no startup script"
        elif _END_IS_SUCCESS.fullmatch(message) and not failure:
            code = 0
    return code, failure, tuple(lines[-MOST_LINES:]), any_message


def _result(text: str) -> tuple[int | None, str]:
    """Return the exit code and the failure; a signal, or a script that could not be run, has no exit code."""
    match = _EXIT_STATUS.fullmatch(text)
    if match is None:
        return None, text[:_MOST_CHARACTERS] or "it failed"
    code = int(match["code"])
    return code, f"exit code {code}" if code else ""
