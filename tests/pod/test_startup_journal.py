"""Tests of reading a startup script's state from the journal, as every generation of guest agents writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.errors import TpuTuiError
from tui.pod.creation.machine_request import MachineRequest
from tui.pod.creation.slice_request import QueueRequest, SliceRequest, WorkerStartup
from tui.pod.creation.startup_journal import MOST_LINES, parse_startup
from tui.pod.creation.startup_progress import progress_line, startup_error, waiting_line
from tui.pod.groups.group_request import GroupRequest

NEW = {"LoadState": "loaded", "ActiveState": "inactive", "ExecMainCode": "0", "ExecMainStatus": "0"}
RUNNING = {**NEW, "ActiveState": "activating"}
ENDED = {**NEW, "ExecMainCode": "1"}

SYSTEMD_BEGIN = "Starting google-startup-scripts.service - Google Compute Engine Startup Scripts..."
SYSTEMD_END = ("google-startup-scripts.service: Deactivated successfully.", "Finished Google Compute Engine …")
PYTHON = ("INFO Starting startup scripts.", "INFO Found startup-script in metadata.", "INFO startup-script: hello")
GO_2020 = tuple(
    f"2020/05/05 12:00:0{second} google_metadata_script_runner: {text}"
    for second, text in enumerate(
        (
            "Starting startup scripts (version 20200402.01).",
            "Found startup-script in metadata.",
            "startup-script: hello",
        )
    )
)
GO = (
    SYSTEMD_BEGIN,
    "Starting startup scripts (version 20230601.00).",
    "Found startup-script in metadata.",
    "startup-script: hello",
)
GO_2025 = (
    "Initialized Metadata Script Runner Compat (version 20250901.00)",
    'Running metadata script runner (version 20250901.00) for "startup" event',
    "Found startup-script in metadata",
    'Metadata key("startup-script"), command("/bin/bash"): hello',
)


def startup(messages: tuple[str, ...], unit: dict[str, str] = RUNNING) -> WorkerStartup:
    return parse_startup(WorkerStartup("pod", 0), unit, messages)


@pytest.mark.parametrize(
    ("begin", "success", "failure", "killed"),
    [
        (PYTHON, "INFO startup-script: Return code 0.", "INFO startup-script: Return code 3.", None),
        (
            GO_2020,
            "2020/05/05 12:00:03 google_metadata_script_runner: startup-script exit status 0",
            "2020/05/05 12:00:03 google_metadata_script_runner: startup-script exit status 3",
            "2020/05/05 12:00:03 google_metadata_script_runner: startup-script signal: killed",
        ),
        (GO, "startup-script exit status 0", "startup-script exit status 3", "startup-script signal: killed"),
        (
            GO,
            "startup-script exit status 0",
            'Script "startup-script" failed with error: exit status 3',
            'Script "startup-script" failed with error: signal: killed',
        ),
        (
            GO_2025,
            "Finished running startup scripts",
            'Script "startup-script" failed with error: exit status 3',
            'Script "startup-script" failed with error: signal: killed',
        ),
    ],
)
def test_the_journal_of_every_guest_agent_is_understood(
    begin: tuple[str, ...], success: str, failure: str, killed: str | None
) -> None:
    last = "Finished running startup scripts" + ("" if begin is GO_2025 else ".")
    running = startup(begin)
    assert (running.exit_code, running.detail, running.has_ended) == (None, "running", False)
    done = startup((*begin, success, last, *SYSTEMD_END), ENDED)
    assert (done.exit_code, done.detail, done.has_ended, done.has_failed) == (0, "", True, False)
    failed = startup((*begin, failure, last, *SYSTEMD_END), ENDED)
    assert (failed.exit_code, failed.detail, failed.has_failed) == (3, "exit code 3", True)
    if killed:
        ended = startup((*begin, killed, last), ENDED)
        assert (ended.exit_code, ended.detail, ended.has_failed) == (None, "signal: killed", True)
    assert running.lines == done.lines == failed.lines == ("hello",)


@pytest.mark.parametrize("begin", [PYTHON, GO_2020, GO, GO_2025])
def test_lines_that_the_script_itself_prints_do_not_change_its_state(begin: tuple[str, ...]) -> None:
    prefix = begin[-1].removesuffix("hello")
    words = ("startup-script exit status 0", "Finished running startup scripts", "No startup scripts to run.")
    state = startup((*begin, *(prefix + word for word in words)))

    assert (state.has_ended, state.lines) == (False, ("hello", *words))


def test_a_go_agents_script_that_prints_a_return_code_is_running() -> None:
    assert not startup((*GO, "startup-script: Return code 0.")).has_ended


def test_only_the_newest_execution_of_a_boot_counts() -> None:
    again = startup((*GO, "startup-script exit status 3", "Finished running startup scripts.", *GO))

    assert (again.exit_code, again.has_ended, again.lines) == (None, False, ("hello",))


def test_without_an_exit_code_of_an_older_agent_the_script_counts_as_failed() -> None:
    """journald drops messages of a program that writes too many."""
    state = startup((*GO, "Finished running startup scripts."), ENDED)

    assert (state.exit_code, state.has_failed) == (None, True)
    assert state.detail == "it has ended, but its exit code is not in the journal"


@pytest.mark.parametrize(
    ("unit", "messages", "detail", "has_ended"),
    [
        ({}, (), "systemd does not answer there", False),
        (NEW, (), "not started yet", False),
        (RUNNING, GO[:1], "running", False),
        (RUNNING, (), "running; its user cannot read the journal, and sudo needs a password", False),
        ({**NEW, "ActiveState": "failed", "ExecMainCode": "2"}, GO, "it was killed; a restart may follow", False),
        ({"LoadState": "not-found"}, (), "the worker has no google-startup-scripts.service", True),
        (
            ENDED,
            (),
            "it has ended, but its exit code is not in the journal; its user cannot read the journal, and sudo needs "
            "a password",
            True,
        ),
        (
            {**ENDED, "ActiveState": "failed", "ExecMainStatus": "2"},
            ("startup scripts disabled in instance config",),
            "its runner ended with exit code 2",
            True,
        ),
        (ENDED, (*GO[:2], "No startup scripts to run."), "its metadata has no startup script", True),
        (
            ENDED,
            (*GO[:3], 'Script "startup-script" failed with error: unable to write script to file: disk full'),
            "unable to write script to file: disk full",
            True,
        ),
    ],
)
def test_the_state_without_a_result_is_described(
    unit: dict[str, str], messages: tuple[str, ...], detail: str, has_ended: bool
) -> None:
    state = startup(messages, unit)

    assert (state.exit_code, state.detail, state.has_ended) == (None, detail, has_ended)


def test_a_line_that_the_agent_cannot_read_is_among_the_last_lines() -> None:
    complaint = 'error while communicating with "startup-script" script: bufio.Scanner: token too long'
    state = startup((*GO, complaint, 'Script "startup-script" failed with error: signal: broken pipe'))

    assert (state.detail, state.lines) == ("signal: broken pipe", ("hello", complaint))


@given(st.lists(st.text(), max_size=300))
def test_any_journal_is_bounded_and_ends_with_a_code_or_a_cause(messages: list[str]) -> None:
    state = startup(tuple(messages), RUNNING)

    assert len(state.lines) <= MOST_LINES
    assert all(len(line) <= 500 for line in (*state.lines, state.detail))
    assert state.exit_code == 0 or state.detail


def test_many_and_long_lines_are_cut() -> None:
    state = startup((*GO, *(f"startup-script: {number}{'x' * 1000}" for number in range(1000))))

    assert (len(state.lines), len(state.lines[-1]), state.lines[-1][:3]) == (MOST_LINES, 500, "999")


# ── the reports ──────────────────────────────────────────────────────────────────────────────────


def a_request(**fields: object) -> SliceRequest:
    return SliceRequest("pod", "us-a", accelerator_type="v2-32", **fields)


def states(*codes: int | None, name: str = "pod") -> list[WorkerStartup]:
    """Return workers whose scripts ended with these codes; None for a script that runs."""
    return [
        WorkerStartup(
            name,
            worker,
            code,
            "running" if code is None else f"exit code {code}" if code else "",
            (),
            code is not None,
        )
        for worker, code in enumerate(codes)
    ]


def test_progress_counts_the_workers() -> None:
    assert progress_line(states(None)) == "startup script: 0 of 1 worker finished"
    assert progress_line(states(0, 0, 0, None)) == "startup script: 3 of 4 workers finished"
    assert progress_line(states(0, 3)) == "startup script: 2 of 2 workers finished, 1 failed"
    assert (
        waiting_line(states(0, None), 75) == "startup script: 1 of 2 workers finished after 75 s; worker 1: running"
    )
    both = states(0, None) + states(None, name="pod-1")
    assert waiting_line(both, 1).endswith("worker 1 of pod: running; worker 0 of pod-1: running")


def test_many_different_causes_are_cut() -> None:
    several = [WorkerStartup("pod", worker, detail=f"{worker}" * 300) for worker in range(9)]

    assert waiting_line(several, 1).endswith("2" * 200 + "; and 6 more")


def failure(request: MachineRequest, found: list[WorkerStartup]) -> TpuTuiError:
    error = startup_error(request, found)
    assert error is not None
    return error


def test_success_is_no_error() -> None:
    assert startup_error(a_request(), states(0, 0)) is None


def test_a_failure_names_the_worker_and_the_next_steps() -> None:
    error = failure(a_request(), states(0, 3, None, 3))

    assert error.sentence == "the startup script of pod failed: workers 1, 3: exit code 3"
    assert error.exit_code == 1
    assert error.remedy == (
        "the slice stays and costs money: look with tpu-tui ssh us-a/pod --worker 1 "
        "(sudo journalctl -u google-startup-scripts.service), or delete it: tpu-tui slices delete pod --zone us-a"
    )


def test_a_script_that_does_not_end_is_named_with_the_limit() -> None:
    error = failure(a_request(startup_timeout_s=90.0), states(0, None))

    assert error.sentence == "the startup script of pod did not end within 90 s: worker 1: running"


def test_a_failure_in_the_queue_names_the_slice_and_deletes_the_request() -> None:
    request = a_request(queue=QueueRequest(nodes=2))
    error = failure(request, states(0, name="pod-0") + states(4, name="pod-1"))

    assert error.sentence == "the startup script of pod failed: worker 0 of pod-1: exit code 4"
    assert "the slices stay and cost money: look with tpu-tui ssh us-a/pod-1 --worker 0 (" in error.remedy
    assert error.remedy.endswith("or delete them: tpu-tui slices delete pod --zone us-a --queued --force")


def test_a_failure_on_a_group_deletes_the_group() -> None:
    request = GroupRequest("crew", "us-a", size=2, machine_type="n1-standard-16", image="base")
    remedy = failure(request, states(0, 3, name="crew")).remedy
    assert remedy.endswith("or delete it: tpu-tui groups delete us-a/crew")
