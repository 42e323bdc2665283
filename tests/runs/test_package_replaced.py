"""A running keeper that finishes its work after tpu-tui was replaced or removed on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.runs.ssh_pod import Pod, over, unattended
from tests.waiting import wait_until
from tui.pod.run import RunState
from tui.procs import python_env
from tui.runs.launch.on_end_actions import pending_actions
from tui.runs.record.run_status import status_of

pytestmark = pytest.mark.timing


def test_a_keeper_whose_package_is_gone_restarts_the_run_and_carries_out_its_actions(
    pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    shutil.copytree(python_env.PACKAGE_ROOT / "tui", installed / "tui")
    monkeypatch.setattr(python_env, "PACKAGE_ROOT", installed)
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path / "home"))
    go = tmp_path / "go"
    job = f"echo 'Epoch=1 Step=2 Loss=3.0'; until [ -e {go} ]; do sleep 0.1; done; [ -e {go}.again ] || exit 3"
    command = f"command:touch {tmp_path}/commanded; rm -f {go}"
    directory = pod.running("sh", "-c", job, restarts=1, on_end=("report", command))

    (installed / "tui").rename(installed / "replaced")
    go.touch()
    wait_until(lambda: status_of(directory).attempt == 1)
    Path(f"{go}.again").touch()
    status = over(directory)
    unattended(directory)

    assert (status.state, status.attempt) == (RunState.SUCCEEDED, 1), status.cause
    assert pending_actions(directory) == []
    statuses = {event.get("on_end"): event.get("status") for event in directory.events()[0] if event.get("on_end")}
    assert statuses == {"report": "done", command: "done"}, status.notes
    assert (directory.path / "report.html").stat().st_size > 0
    assert (tmp_path / "commanded").exists()
