"""A worker recreated under the same address during a run: nothing is sent to it, and the run says why it is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.pipes import content_of
from tests.runs.ssh_pod import Pod
from tests.sshd import make_key, needs_sshd, openssh_worker
from tests.waiting import wait_until
from tui.runs.record.run_status import status_of

pytestmark = [needs_sshd, pytest.mark.timing]


def test_a_host_key_that_changes_during_a_run_is_reported_and_nothing_is_sent_to_the_worker(tmp_path: Path) -> None:
    with openssh_worker(tmp_path, bare=True) as worker:
        pod = Pod([worker], tmp_path / "home")
        directory = pod.running("sh", "-c", "echo begun; sleep 1000")
        try:
            wait_until(lambda: content_of(directory.log_path(0)) == b"begun\n")
            worker.stop()
            (worker.root / "host_key").unlink()
            make_key(worker.root / "host_key")
            (worker.root / "sshd.log").unlink()
            worker.start()
            wait_until(lambda: "its host key has changed" in (status_of(directory).workers[0].link_detail or ""))
            assert "Accepted" not in worker.log
        finally:
            pod.end_runs()
