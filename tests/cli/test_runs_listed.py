"""`runs` with the runs that this machine knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Shell
from tests.logs.shapes import training
from tui.cli import main
from tui.pod.job_options import JobOptions
from tui.pod.run import LAST_WORDS, Run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import DISK_IS_FULL


def create_run(shell: Shell, run: str, zone: str | None = None) -> RunDirectory:
    workers = (Worker(0, internal_ip="10.0.0.1"), Worker(1, internal_ip="10.0.0.2"))
    record = Run(id=run, slice="pod", zone=zone, job=JobOptions(("x",)), workers=workers)
    directory = RunDirectory.create(shell.home / "runs", record)
    for worker in (0, 1):
        line = training(core=worker, epoch=2, step=30 + worker, loss="1.50000") + "\n"
        directory.log_path(worker).write_text(line)
    return directory


def test_runs_shows_the_newest_figures_and_why_a_run_failed_or_was_restarted(shell: Shell) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    again = create_run(shell, "more-20260103-000000-cccc")
    cause = "restart 1 of 3: worker 0 ended by SIGKILL"
    again.append_event("state", state="preparing", attempt=1, cause=f"{cause}{LAST_WORDS}| its last line")
    again.append_event("state", state="running")
    failed = create_run(shell, "fell-20260101-000000-bbbb")
    failed.append_event("state", state="failed", cause="worker 1 ended with exit code 7")

    answer = shell.call("runs", "--offline")

    more, goes, fell = answer.out.splitlines()[-3:]
    assert more.endswith(f"loss 1.50000 step 31 epoch 2 · {cause}")
    assert goes.startswith("goes-")
    assert "loss 1.50000 step 31 epoch 2" in goes
    assert "worker 1 ended with exit code 7" in fell
    assert "loss" not in fell
    assert (answer.code, answer.errors) == (0, "")


def test_status_shows_which_worker_is_unreachable_and_why_and_the_newest_note(shell: Shell) -> None:
    run = "goes-20260102-000000-aaaa"
    directory = create_run(shell, run)
    directory.append_event("state", state="running", cause=None)
    directory.append_event("link", worker=0, status="restored")
    for expected in ("connection refused", "host key changed"):
        directory.append_event("link", worker=1, status="lost", detail=expected)
    directory.append_event("note", text=DISK_IS_FULL)
    printed = shell.call("status", run, "--offline").out
    assert "unreachable  worker 1: host key changed\n" in printed
    assert f"newest note  {DISK_IS_FULL}\n" in printed


def test_a_record_that_a_power_cut_left_empty_is_reported_and_hides_no_other(shell: Shell) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    for run, record in (("cut-20260101-000000-bbbb", b""), ("odd-20260101-000000-cccc", b'{"id": 5}')):
        (create_run(shell, run).path / "run.json").write_bytes(record)
    answer = shell.call("runs", "--offline", "--json")
    assert ([run["run"] for run in answer.document], answer.code) == (["goes-20260102-000000-aaaa"], 0)
    assert "cut-20260101-000000-bbbb has no readable run.json" in answer.errors
    assert answer.errors.count("move that directory away") == 1
    rows = [line.split() for line in shell.call("runs", "--offline").out.splitlines()[1:]]
    assert [(row[0].partition("-")[0], row[2]) for row in rows] == [
        ("goes", "preparing"),
        ("odd", "unreadable"),
        ("cut", "unreadable"),
    ]


def test_a_damaged_record_is_deleted_by_name_here_only_and_the_answer_says_so(shell: Shell) -> None:
    run = "cut-20260101-000000-bbbb"
    directory = create_run(shell, run)
    directory.append_event("state", state="running")
    (directory.path / "run.json").write_bytes(b"{")
    for words, printed in (((), "may still be running"), (("--on", "workers"), "cannot be deleted on its workers")):
        refused = shell.call("runs", "delete", run, "--yes", *words)
        assert (refused.code, printed in refused.errors, "→" in refused.errors) == (2, True, True)
    [row] = shell.call("runs", "delete", run, "--on", "here", "--yes", "--json").document
    assert (row["run"], row["deleted"], "here only" in row["detail"]) == (run, True, True)
    assert not directory.path.exists()


def test_the_figures_of_the_newest_runs_only_are_read(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(1, 4):
        create_run(shell, f"goes-2026010{day}-000000-aaaa")
    monkeypatch.setattr("tui.commands.runs.FIGURES_OF", 2)
    monkeypatch.setenv("TPU_TUI_HOME", str(shell.home))
    assert main(["runs", "--offline"]) == 0
    printed = capsys.readouterr()
    assert ["loss" in line for line in printed.out.splitlines()[1:]] == [True, True, False]
    assert "Figures are shown for the newest 2 runs" in printed.err


def test_runs_as_json_holds_no_figures_of_a_partly_read_log(shell: Shell) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    [run] = shell.call("runs", "--offline", "--json").document
    assert (run["run"], run["loss"], run["step"]) == ("goes-20260102-000000-aaaa", None, None)


def test_an_invalid_dialect_hides_no_run_and_no_state(shell: Shell) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    (shell.home / "profiles").mkdir()
    (shell.home / "profiles" / "default.toml").write_text("[dialects.mine]\npattern = '('\n")

    listed = shell.call("runs", "--offline")
    assert listed.code == 0
    assert "loss 1.50000 step 31 epoch 2" in listed.out
    assert "dialect 'mine' in the profile cannot be used" in listed.errors

    status = shell.call("status", "last", "--offline", "--json")
    assert status.code == 2
    assert status.document["run"] == "goes-20260102-000000-aaaa"
    assert status.document["loss"] is None
    assert "dialect 'mine'" in status.errors
    assert shell.call("cores", "last", "--offline").code == 2  # figures of the wrong lines would be worse than none


def test_known_runs_are_listed_although_the_hosts_file_is_missing(shell: Shell, tmp_path: Path) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    answer = shell.call("--hosts", str(tmp_path / "missing.txt"), "runs", "--json")
    assert ([run["run"] for run in answer.document], answer.code) == (["goes-20260102-000000-aaaa"], 2)
    assert "missing.txt" in answer.errors


def test_options_of_runs_delete_are_refused_by_runs(shell: Shell) -> None:
    for words in (("--older-than", "7d"), ("--on", "here"), ("--yes",)):
        answer = shell.call("runs", *words, "--offline")
        assert answer.code == 2
        assert "runs delete" in answer.errors


def test_a_deletion_by_age_that_finds_no_run_is_reported(shell: Shell) -> None:
    answer = shell.call("runs", "delete", "--older-than", "7d")
    assert (answer.code, answer.out) == (0, "")
    assert "Nothing was deleted" in answer.errors


def test_no_runs_of_one_slice_are_not_shown_as_no_runs_at_all(shell: Shell) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    assert "No runs on other yet" in shell.call("runs", "other", "--offline").errors


def test_runs_of_a_slice_in_one_zone_are_not_those_of_its_namesake(shell: Shell) -> None:
    for zone in ("a", "b"):
        create_run(shell, f"goes-20260102-000000-{zone * 4}", zone)
    listed = shell.call("runs", "b/pod", "--offline", "--json").document
    assert [run["run"] for run in listed] == ["goes-20260102-000000-bbbb"]


def test_without_settings_runs_needs_no_login(shell: Shell) -> None:
    shell.environ["NO_GCE_CHECK"] = "true"
    shell.environ.pop("GOOGLE_APPLICATION_CREDENTIALS", None)
    answer = shell.call("runs")
    assert (answer.code, answer.errors.startswith("No runs yet.")) == (0, True)
    assert shell.call("--project", "p", "runs").code == 3


def test_read_only_mode_says_where_it_was_set(shell: Shell) -> None:
    (shell.home / "profiles").mkdir()
    (shell.home / "profiles" / "default.toml").write_text("read_only = true\n")
    for words in (("runs", "delete", "x"), ("exec", "x", "--", "true")):
        answer = shell.call(*words)
        assert answer.code == 2
        assert "default.toml" in answer.errors
        assert "--read-only" not in answer.errors


def test_runs_are_deleted_by_name_or_by_age(shell: Shell) -> None:
    create_run(shell, "goes-20260102-000000-aaaa")
    both = shell.call("runs", "delete", "goes", "--older-than", "7d")
    assert (both.code, "not both" in both.errors) == (2, True)
    neither = shell.call("runs", "delete")
    assert (neither.code, "no runs given" in neither.errors) == (2, True)


def test_a_stop_prints_equal_answers_of_workers_in_one_line(shell: Shell) -> None:
    directory = create_run(shell, "goes-20260102-000000-aaaa")
    for worker in (0, 1):
        directory.append_event("exit", worker=worker, exit_code=143, signal=None, size=9, cause=None)
    directory.append_event("state", state="stopped")
    answer = shell.call("stop", "last")
    assert (answer.code, answer.out.splitlines()) == (0, ["workers 0-1 (2) · had already ended, exit code 143"])


def test_runs_of_other_projects_are_counted_and_listed_when_wanted(shell: Shell) -> None:
    workers = (Worker(0, internal_ip="10.0.0.1"),)
    printed = {"own": ("this", "z"), "other": ("elsewhere", "z"), "lab": (None, None), "old": (None, "z")}
    for name, (project, zone) in printed.items():
        run = Run(f"{name}-20260102-000000-aaaa", "pod", JobOptions(("x",)), workers, zone=zone, project=project)
        RunDirectory.create(shell.home / "runs", run)

    def listed(*words: str) -> tuple[set[str], str]:
        answer = shell.call(*words, "runs", "--offline", "--json")
        return {run["run"].partition("-")[0] for run in answer.document}, answer.errors

    assert listed("--project", "this") == (
        {"own", "old"},
        "2 runs of other projects hidden: list them with tpu-tui runs --all\n",
    )
    answer = shell.call("--project", "this", "runs", "--offline", "--all", "--json")
    assert (len(answer.document), answer.errors) == (4, "")
    hosts = shell.home / "machines.txt"
    hosts.write_text("10.0.0.1\n")
    assert listed("--hosts", str(hosts))[0] == {"lab"}
    hosts.write_text("10.0.0.2\n")
    assert listed("--hosts", str(hosts))[0] == set()
    for option in ("--all", "--offline"):
        refused = shell.call("runs", "delete", option)
        assert refused.code == 2
        assert f"runs delete does not take {option}" in refused.errors
