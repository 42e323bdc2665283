"""A complete session of a user in a second terminal: list, check, launch, watch, stop, report."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import DEADLINE
from tests.cli.conftest import LocalPod
from tests.cli.test_runs_delete import Question
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.text.ranks import parse_ranks

pytestmark = pytest.mark.timing

REHEARSAL = ("python3", "-m", "tui.localpod.rehearsal")


def launch(pod: LocalPod, *words: str, job: tuple[str, ...]) -> dict[str, Any]:
    answer = pod.run("launch", "local", "--detach", "--json", *words, "--", *job)
    assert answer.code == 0, answer.errors
    return dict(answer.document)


def worker_logs(pod: LocalPod, run: str) -> list[bytes]:
    """Return the logs on the workers themselves, read by a command there."""
    script = f"base64 ~/.tpu-tui/runs/{run}/*/log"
    done = pod.call("exec", "local", "--json", "--", "sh", "-c", script)
    return [base64.b64decode(row["stdout"]) for row in done.document]


def await_state(run: dict[str, Any], state: RunState) -> None:
    """Wait until the run directory shows this state; polling with commands would cost a second of CPU each time."""
    directory = RunDirectory.open(Path(run["directory"]))
    wait_until(lambda: status_of(directory).state is state, f"the run is {state.value}")


def cores_in(directory: Path) -> set[bytes]:
    """Return the ordinals of the cores that have logged a step."""
    logs = [path.read_bytes() for path in directory.glob("worker-*.log")]
    return {core for log in logs for core in re.findall(rb"Training Device=xla:\d+/(\d+) .*\n", log)}


@pytest.fixture(scope="module")
def rehearsed(pod: LocalPod) -> dict[str, Any]:
    """Launch a long rehearsal run, and wait until each of its 32 cores has logged a step."""
    run = launch(pod, "--name", "night", job=(*REHEARSAL, "--interval", "0.2", "--steps", "100000"))
    wait_until(lambda: len(cores_in(Path(run["directory"]))) == 32, "32 cores have logged a step")
    return run


def test_the_announcement_names_everything_that_clients_need(pod: LocalPod) -> None:
    assert list(pod.announced) == [
        "token",
        "profile",
        "project",
        "zone",
        "slices",
        "tpu_api",
        "compute_api",
        "storage",
        "bucket",
        "pid",
    ]
    assert (pod.announced["project"], pod.announced["zone"], pod.announced["slices"]) == (
        "local",
        "local-a",
        ["local"],
    )
    assert pod.announced["pid"] == pod.process.pid


def test_slices_and_workers_are_listed_without_naming_a_profile(pod: LocalPod) -> None:
    (slice_,) = pod.call("slices", "--json").document
    assert (slice_["name"], slice_["accelerator_type"], slice_["state"]) == ("local", "v3-32", "READY")
    assert (slice_["workers"], slice_["cores"], slice_["source"]) == (4, 32, "tpu_api")
    workers = pod.run("workers", "local-a/local", "--json")
    assert workers.code == 0
    assert [row["worker"] for row in workers.document] == [0, 1, 2, 3]
    assert all(row["reachable"] and row["error"] is None for row in workers.document)


def test_check_tries_every_worker_and_every_pair(pod: LocalPod) -> None:
    answer = pod.run("check", "local", "--json", "--ports", "8471")
    rows = answer.document["checks"]
    assert answer.code == 0, rows
    assert answer.document["ok"]
    assert {row["worker"] for row in rows if row["check"] == "reachability"} == {0, 1, 2, 3}
    pairs = {(row["worker"], row["peer"]) for row in rows if row["port"] == 8471}
    assert len(pairs) == 12
    assert all(row["state"] in ("open", "closed") for row in rows if row["port"] is not None)


def test_exec_groups_equal_outputs_and_keeps_exit_codes_apart(pod: LocalPod) -> None:
    answer = pod.run(
        "exec", "local", "--", "sh", "-c", "echo same; exit $(( $(basename $(dirname $HOME) | cut -c3) == 2 ))"
    )
    assert answer.code == 1
    assert answer.out.splitlines() == ["── workers 0-1,3 (3)", "same", "── worker 2 (1) · exit 1", "same"]
    rows = pod.call("exec", "local", "--worker", "1,3", "--json", "--", "printf", "%s\\n", "a b", "$HOME").document
    assert [(row["worker"], row["exit_code"], row["stdout"]) for row in rows] == [
        (1, 0, "a b\n$HOME\n"),
        (3, 0, "a b\n$HOME\n"),
    ]


def test_exec_gives_up_a_worker_after_its_timeout_and_keeps_its_output(pod: LocalPod) -> None:
    answer = pod.call(
        "exec", "local", "--worker", "0", "--timeout", "1", "--json", "--", "sh", "-c", "echo early; sleep 60"
    )
    assert answer.code == 1
    assert answer.document[0]["timed_out"]
    assert answer.document[0]["stdout"] == "early\n"


def test_cores_come_sorted_by_any_column(pod: LocalPod, rehearsed: dict[str, Any]) -> None:
    rows = pod.run("cores", rehearsed["run"], "--sort", "loss", "--json").document
    assert len(rows) == 32
    losses = [row["loss"] for row in rows]
    assert losses == sorted(losses)
    assert {row["core"] // 8 == row["worker"] for row in rows} == {True}
    assert set(rows[0]) == {
        *("core", "device", "worker", "address", "epoch", "step", "loss", "rate", "global_rate"),
        *("time", "clock", "lag", "state", "rate_unit", "first_nan", "pace"),
    }
    backwards = pod.call("cores", "night", "--sort", "core", "--reverse", "--json").document
    assert [row["core"] for row in backwards] == list(range(31, -1, -1))


def test_status_shows_state_figures_and_exit_codes(pod: LocalPod, rehearsed: dict[str, Any]) -> None:
    status = pod.run("status", "night", "--json").document
    assert (status["run"], status["slice"], status["state"]) == (rehearsed["run"], "local", "running")
    assert status["attended"] is True
    assert status["exit_codes"] == [None] * 4
    assert status["cores"] == 32
    assert status["loss"]["min"] <= status["loss"]["median"] <= status["loss"]["max"]


def test_one_workers_log_is_byte_for_byte_what_it_wrote(pod: LocalPod, rehearsed: dict[str, Any]) -> None:
    shown = pod.run("logs", "night", "--worker", "2").raw
    assert worker_logs(pod, rehearsed["run"])[2].startswith(shown)
    assert b"Device=xla:" in shown
    only = pod.call("logs", "night", "--core", "17", "--tail", "3").out.splitlines()
    assert len(only) == 3
    assert all("/17 " in line for line in only)


def test_a_second_run_on_a_busy_slice_is_refused_before_anything_starts(
    pod: LocalPod, rehearsed: dict[str, Any]
) -> None:
    answer = pod.call("launch", "local", "--", "true")
    assert answer.code == 1
    assert rehearsed["run"] in answer.errors


def test_a_killed_keeper_is_reported_and_attach_goes_on_where_the_mirror_ended(
    pod: LocalPod, rehearsed: dict[str, Any]
) -> None:
    directory = Path(rehearsed["directory"])
    keeper = int((directory / "keeper").read_text().split()[0])
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not RunDirectory.open(directory).keeper_status().alive, "the keeper has ended")
    assert not pod.call("status", "night", "--json", "--offline").document["attended"]
    assert "unattended since" in pod.run("runs").out
    with pod.shell.start("attach", "night", "--json") as attached:
        assert attached.stdout is not None
        first = json.loads(attached.stdout.readline())
        assert set(first) == {"worker", "offset", "time", "text"}
        attached.send_signal(signal.SIGINT)
        _, errors = attached.communicate(timeout=30)
    assert attached.returncode == 130
    assert "continues in the background" in errors.decode()
    status = pod.call("status", "night", "--json").document
    assert (status["state"], status["attended"]) == ("running", True)


def test_every_worker_confirms_a_stop_and_mirrors_are_complete(pod: LocalPod, rehearsed: dict[str, Any]) -> None:
    answer = pod.run("stop", "night", "--json", "--grace", "10")
    assert answer.code == 0, answer.errors
    assert answer.document["stopped"]
    assert [(row["worker"], row["confirmed"]) for row in answer.document["workers"]] == [(n, True) for n in range(4)]
    await_state(rehearsed, RunState.STOPPED)
    assert pod.call("status", "night", "--json").document["state"] == "stopped"
    directory = Path(rehearsed["directory"])
    logs = worker_logs(pod, rehearsed["run"])
    assert len(logs) == 4
    for worker, there in enumerate(logs):
        mirror = (directory / f"worker-{worker:03d}.log").read_bytes()
        assert hashlib.sha256(mirror).hexdigest() == hashlib.sha256(there).hexdigest()
    assert pod.call("stop", "night", "--json").document["stopped"], "a second stop answers the same"


def test_reports_are_written_in_every_format(pod: LocalPod, rehearsed: dict[str, Any], tmp_path: Path) -> None:
    answer = pod.call(
        *("report", "night", "--out", str(tmp_path), "--json"),
        *("--format", "md", "--format", "txt", "--format", "json", "--format", "csv", "--format", "html"),
    )
    name = rehearsed["run"]
    assert [Path(path).name for path in answer.document["files"]] == [
        f"{name}.{suffix}" for suffix in ("md", "txt", "json", "cores.csv", "curves.csv", "html")
    ]
    text = (tmp_path / f"{name}.md").read_text()
    assert rehearsed["run"] in text
    assert "rehearsal" in text, "a rehearsal is not reported as a training run"
    document = json.loads((tmp_path / f"{name}.json").read_text())
    assert set(document["curves"]) == {str(row["core"]) for row in document["cores"]}


def test_a_report_is_uploaded_to_the_bucket(pod: LocalPod, rehearsed: dict[str, Any], tmp_path: Path) -> None:
    folder = f"{pod.announced['bucket']}/reports"
    answer = pod.run("report", "night", "--out", str(tmp_path), "--upload", folder, "--json")
    name = f"{rehearsed['run']}.md"
    assert answer.document["files"] == [str(tmp_path / name), f"{folder}/{name}"]
    assert pod.run("report", "night", "--upload", folder, "--json").document["files"][1] == f"{folder}/{name}"
    missing = pod.call("report", "night", "--out", str(tmp_path), "--upload", "gs://no-such-bucket-here/x")
    assert f"Written here: {tmp_path}/{name}" in missing.errors
    assert missing.code in (2, 3)
    assert "no-such-bucket-here" in missing.errors


def test_the_logs_of_all_workers_are_uploaded_with_a_report(
    pod: LocalPod, rehearsed: dict[str, Any], tmp_path: Path
) -> None:
    folder = f"{pod.announced['bucket']}/with-logs"
    answer = pod.call("report", "night", "--logs", "--out", str(tmp_path), "--upload", folder, "--json")
    names = [f"{rehearsed['run']}.{part}" for part in ("md", *(f"worker-{number:03d}.txt" for number in range(4)))]
    assert answer.document["files"] == [*(f"{tmp_path}/{name}" for name in names), *(f"{folder}/{n}" for n in names)]
    for worker, name in enumerate(names[1:]):
        mirror = Path(rehearsed["directory"]) / f"worker-{worker:03d}.log"
        written = (tmp_path / name).read_bytes()
        assert written
        assert mirror.read_bytes().startswith(written), "the run may go on meanwhile"
    again = pod.call("report", "night", "--logs", "--out", str(tmp_path), "--upload", folder)
    assert again.code == 0, again.errors


def test_status_says_how_long_a_job_waited_for_data(pod: LocalPod) -> None:
    line = "| Training Device=xla:0/0 Epoch=1 Step=0 Loss=1.0 Rate=1.0 GlobalRate=1.0 Time=00:00:00"
    script = f"echo '{line}'; echo 'Epoch 1 waited for data 1.50 s, 7.5% of the time; longest 2.00 s on core 0'"
    pod.call("stop", "night")  # alive if only some of these tests are run
    done = pod.call("launch", "local", "--name", "waits", "--runtime", "none", "--", "sh", "-c", script)
    assert done.code == 0, done.errors
    assert pod.call("status", "waits", "--json").document["data_wait_share"] == 0.075
    assert "7.5 % of the newest epoch" in pod.call("status", "waits").out


def test_a_synced_tree_is_the_same_on_every_worker_and_sent_once(pod: LocalPod, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub dir").mkdir(parents=True)
    (tree / "sub dir" / "ünï.py").write_bytes(b"print('here')\n\x00")
    first = pod.run("sync", "local", str(tree), "--json")
    assert first.code == 0, first.errors
    assert [(row["worker"], row["skipped"]) for row in first.document] == [(n, False) for n in range(4)]
    assert len({row["hash"] for row in first.document}) == 1
    assert all(row["skipped"] for row in pod.call("sync", "local", str(tree), "--json").document)
    run = pod.call("launch", "local", "--sync", str(tree), "--", "sh", "-c", "wc -c < 'sub dir/ünï.py'")
    assert run.code == 0, run.errors
    assert sorted(run.out.splitlines()[1:]) == [f"[{n}] 15" for n in range(4)]


def test_an_attached_launch_streams_output_and_ends_with_the_result_of_the_run(pod: LocalPod) -> None:
    good = pod.run("launch", "local", "--", "sh", "-c", "echo on $TPU_TUI_WORKER of $TPU_TUI_WORKERS")
    assert good.code == 0, good.errors
    lines = good.out.splitlines()
    assert sorted(lines[1:]) == [f"[{n}] on {n} of 4" for n in range(4)]
    bad = pod.call(
        "launch", "local", "--on-failure", "leave", "--", "sh", "-c", "test $TPU_TUI_WORKER != 3 || exit 7"
    )
    assert bad.code == 1
    assert "worker 3" in bad.errors
    assert pod.call("status", "last", "--json").document["exit_codes"] == [0, 0, 0, 7]


def test_one_failing_worker_stops_the_others_and_is_named(pod: LocalPod) -> None:
    answer = pod.call(
        "launch", "local", "--", "sh", "-c", "test $TPU_TUI_WORKER != 1 || { echo boom; exit 3; }; sleep 600"
    )
    assert answer.code == 1
    status = pod.call("status", "last", "--json").document
    assert status["state"] == "failed"
    assert "worker 1" in status["cause"]
    assert status["exit_codes"][1] == 3


def test_a_command_missing_on_every_worker_starts_nothing_and_is_named(pod: LocalPod) -> None:
    answer = pod.call("launch", "local", "--", "no-such-program-anywhere")
    assert answer.code == 1
    assert "no-such-program-anywhere" in answer.errors
    first = re.search(r"^worker (\d): prepare failed: ", answer.errors, re.M)
    same = r"^workers? ([\d,-]+): prepare failed for the same reason as worker (\d)$"
    alike = re.findall(same, answer.errors, re.M)  # workers that fail at about the same time share a line
    assert first, answer.errors
    assert {as_on for _, as_on in alike} == {first[1]}
    assert {int(first[1]), *(rank for ranks, _ in alike for rank in parse_ranks(ranks, 4))} == {0, 1, 2, 3}
    assert "Traceback" not in answer.errors


def test_secret_values_are_shown_nowhere(pod: LocalPod) -> None:
    dry = pod.call("launch", "local", "--env", "HF_TOKEN=hush-hush", "--dry-run", "--", "true")
    assert dry.code == 0
    assert "hush-hush" not in dry.out + dry.errors
    run = launch(pod, "--env", "HF_TOKEN=hush-hush", job=("sh", "-c", 'test "${#HF_TOKEN}" = 9'))
    await_state(run, RunState.SUCCEEDED)  # the job saw its secret
    directory = RunDirectory.open(Path(run["directory"]))
    wait_until(lambda: not directory.keeper_status().alive, "its keeper has ended", seconds=DEADLINE)
    for path in directory.path.iterdir():
        assert b"hush-hush" not in path.read_bytes(), path


def test_a_launch_that_waits_starts_another_keeper_after_the_first_was_killed(pod: LocalPod, tmp_path: Path) -> None:
    end = tmp_path / "end"
    job = ("sh", "-c", f"echo begun; until test -e {end}; do sleep 0.1; done; echo ended")
    words = ("launch", "local", "--skip-checks", "--name", "orphan", "--json", "--", *job)
    with pod.shell.start(*words) as waiting:
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        directory = Path(json.loads(waiting.stdout.readline())["directory"])
        assert b"begun" in waiting.stdout.readline()
        os.kill(int((directory / "keeper").read_text().split()[0]), signal.SIGKILL)
        printed = iter(waiting.stderr.readline, b"")
        absence = next(line for line in printed if b"has exited" in line)
        assert b" since 20" in absence
        assert b"another one starts" in absence
        assert any(b"has a keeper again" in line for line in printed)
        end.touch()
        assert waiting.wait(DEADLINE) == 0
        assert b"ended" in waiting.stdout.read()


def test_a_launch_that_waits_ends_when_it_cannot_start_another_keeper(pod: LocalPod, tmp_path: Path) -> None:
    end = tmp_path / "end"
    job = ("sh", "-c", f"echo begun; until test -e {end}; do sleep 0.1; done")
    words = ("launch", "local", "--skip-checks", "--name", "forsaken", "--json", "--", *job)
    with pod.shell.start(*words) as waiting:
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        directory = Path(json.loads(waiting.stdout.readline())["directory"])
        assert b"begun" in waiting.stdout.readline()
        record = (directory / "run.json").read_bytes()
        (directory / "run.json").write_bytes(b"{")
        os.kill(int((directory / "keeper").read_text().split()[0]), signal.SIGKILL)
        assert waiting.wait(DEADLINE) == 3
        assert f"tpu-tui attach {directory.name}".encode() in waiting.stderr.read()
    (directory / "run.json").write_bytes(record)
    assert "unattended since" in pod.call("status", "forsaken", "--offline").out
    end.touch()
    assert pod.call("attach", "forsaken").code == 0


def test_read_only_refuses_changes_and_allows_reading(pod: LocalPod) -> None:
    for words in (["launch", "local"], ["exec", "local"]):
        refused = pod.call("--read-only", *words, "--", "true")
        assert refused.code == 2
        assert "--read-only" in refused.errors
    assert pod.call("slices", "--read-only").code == 0


def test_a_slice_is_created_stopped_started_and_deleted(pod: LocalPod) -> None:
    words = ("slices", "create", "small", "--type", "v2-8", "--version", "tpu-ubuntu2204-base")
    assert pod.call(*words, "--dry-run").code == 0
    assert len(pod.call("slices", "--json").document) == 1
    made = pod.run(*words)
    assert made.code == 0, made.errors
    again = pod.call("slices", "start", "small")
    assert (again.code, "it must be STOPPED" in again.errors) == (2, True), "a running slice cannot be started"
    assert {row["name"] for row in pod.call("slices", "--json").document} == {"local", "small"}
    assert pod.call("exec", "small", "--", "true").code == 0
    assert pod.call("slices", "delete", "small").code == 2, "without a terminal its name cannot be confirmed"
    would = pod.call("slices", "delete", "small", "--dry-run", "--json").document
    assert (would["dry_run"], len(would["steps"])) == (True, 1)
    assert would["steps"][0].startswith("would delete small in local-a, now READY")
    with Question(pod.shell, "slices", "stop", "small") as question:
        question.waits_for("[y/N] ")
        declined = question.answers("\n")
    assert (declined.code, "releases its TPU" in declined.errors, "small was not stopped" in declined.errors) == (
        2,
        True,
        True,
    )
    assert pod.call("slices", "stop", "small", "--yes").code == 0
    assert pod.call("slices", "start", "small", "--yes").code == 0
    assert pod.call("slices", "stop", "small").code == 0, "a script is not asked"
    stopped = pod.call("workers", "small", "--json")
    assert (stopped.code, [row["reachable"] for row in stopped.document]) == (3, [False])
    assert "small is STOPPED" in stopped.document[0]["error"]
    assert "slices start local-a/small" in stopped.errors
    assert pod.run("slices", "delete", "small", "--yes").code == 0
    assert {row["name"] for row in pod.call("slices", "--json").document} == {"local"}


@pytest.mark.parametrize("action", ["stop", "start"])
def test_a_slice_of_several_workers_is_not_stopped_and_the_remedy_is_named(pod: LocalPod, action: str) -> None:
    for options in ((), ("--yes",), ("--dry-run",)):
        refused = pod.call("slices", action, "local", *options)
        assert (refused.code, refused.out) == (2, "")
        assert "stops and starts slices of one worker only, and it has 4" in refused.errors
        assert "tpu-tui slices delete local --zone local-a, then tpu-tui slices create local" in refused.errors
    launched = pod.call("launch", "local", "--on-end", "stop-slice", "--", "true")
    assert (launched.code, "--on-end delete-slice" in launched.errors) == (2, True)
    assert pod.call("slices", "--json").document[0]["state"] == "READY"


def test_unknown_names_end_with_code_2_and_a_remedy(pod: LocalPod) -> None:
    for words, printed in (
        (["workers", "lokal"], "local"),
        (["status", "nope"], ""),
        (["cores", "/no/such/file"], ""),
        (["exec", "local", "--worker", "9", "--", "true"], ""),
    ):
        answer = pod.call(*words)
        assert answer.code == 2, words
        assert "Traceback" not in answer.errors
        assert "→" in answer.errors
        assert printed in answer.errors
