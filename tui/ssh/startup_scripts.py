"""Follow the startup scripts of new slices: read each worker's systemd and journal over SSH until all have ended."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

from tui.aio.backoff import backoff
from tui.aio.fan_out import cancel_all
from tui.errors import TpuTuiError
from tui.pod.creation.slice_request import WorkerStartup
from tui.pod.creation.startup_journal import MOST_LINES, UNIT, parse_startup
from tui.ssh.exec.script_protocol import Call, no_answer_error, parse_answers
from tui.ssh.fleet import Fleet

RENEW_INTERVAL_S = 1.0
FAILURE_GRACE_S = 6.0
"""How long to wait for the other workers after a first failure, so that a common failure names all of them."""
_READ_TIMEOUT_S = 30.0
_FIRST_POLL_S, _LONGEST_POLL_S = 0.5, 5.0
_READS_PER_S = 64
"""Most reads per second on all workers together: 2,048 workers are read every half minute."""
_MARGIN_LINES = 50
"""Messages of the runner and of systemd around the script's own."""
_MOST_LINE_BYTES, _MOST_BYTES = 2000, 128 * 1024
_PROPERTIES = ("LoadState", "ActiveState", "ExecMainCode", "ExecMainStatus", "ExecMainStartTimestampMonotonic")
_SCRIPT = f"""
exec 2>/dev/null </dev/null
journal() {{
  "$@" journalctl -q -b -u {UNIT} -o cat --no-pager -n {MOST_LINES + _MARGIN_LINES} |
    cut -b 1-{_MOST_LINE_BYTES} | tail -c {_MOST_BYTES}
}}
unit=$(systemctl show {UNIT} {" ".join(f"-p {name}" for name in _PROPERTIES)} | tr "\\n" " ")
echo "@$1 unit $unit"
case $unit in *Monotonic=0*) ;; *)
  lines=$(journal env)
  [ -n "$lines" ] || lines=$(journal sudo -n)
  [ -z "$lines" ] || printf "%s\\n" "$lines" | sed "s/^/@$1 line /"
esac
echo "@$1 end"
"""
"""Needs sh and coreutils. Reads the journal once the unit has begun; through sudo if it shows nothing without."""


async def read_startup(fleet: Fleet, state: WorkerStartup) -> WorkerStartup:
    """Return the present state of one worker's startup script. Raises WorkerError when it does not answer."""
    nonce = secrets.token_hex(8)
    call = Call(_SCRIPT.encode(), nonce, nonce)
    result = await fleet.run_within(state.worker, call.command, _READ_TIMEOUT_S, input=call.input)
    answers = parse_answers(nonce, result.stdout)
    if not answers or answers[-1].word != "end":
        raise no_answer_error(state.worker, "no answer about its startup script", result.stderr, result.exit_code)
    return parse_startup(state, answers[0].fields, [answer.text for answer in answers if answer.word == "line"])


async def follow_startup_scripts(
    fleets: Mapping[str, Fleet], timeout_s: float
) -> AsyncGenerator[tuple[WorkerStartup, ...], None]:
    """Yield the states of all workers of some slices, about once a second, until their scripts have ended.

    Stops soon after a failure, and after `timeout_s`. A worker that cannot be reached may be booting: it is tried
    again.
    """
    states = {
        (name, index): WorkerStartup(name, index, detail="not reached yet")
        for name, fleet in fleets.items()
        for index in fleet.workers
    }

    async def follow(name: str, index: int) -> None:
        pauses = backoff(_FIRST_POLL_S, max(_LONGEST_POLL_S, len(states) / _READS_PER_S))
        before = None
        while True:
            state = states[name, index]
            try:
                now = replace(await read_startup(fleets[name], state), is_reachable=True)
            except TpuTuiError as error:
                now = replace(state, detail=error.explanation, is_reachable=False)
            is_settled = now.exit_code is not None or now == before
            # An end without an exit code is read twice: a worker that shuts down kills its script.
            states[name, index] = replace(now, has_ended=now.has_ended and is_settled)
            if states[name, index].has_ended:
                return
            before = now
            await asyncio.sleep(next(pauses))

    clock = asyncio.get_running_loop().time
    end = clock() + timeout_s
    pending = {asyncio.ensure_future(follow(*key)) for key in states}
    try:
        while pending and clock() < end:
            wait = min(RENEW_INTERVAL_S, max(0.0, end - clock()))
            done, pending = await asyncio.wait(pending, timeout=wait)
            for task in done:
                task.result()
            if any(state.has_failed for state in states.values()):
                end = min(end, clock() + FAILURE_GRACE_S)
            yield tuple(states.values())
    finally:
        await cancel_all(pending)
