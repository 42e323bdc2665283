"""Tests of both kinds of replicas in their own processes; a CPU device allows one replica of the TPU kind."""

from __future__ import annotations

from pathlib import Path

from tests.trainer import collectives
from tests.trainer.conftest import Pod, skip_without_packages

skip_without_packages()


def test_gradients_of_any_shape_become_their_means_and_one_vote_stops_all(pod: Pod) -> None:
    [worker] = pod.run(["--fake-data"], cores=2, entry_point=collectives.together)
    assert worker.exit_code == 0, worker
    reported = sorted(line for line in worker.lines if line.startswith(collectives.AVERAGED))
    assert reported == [f"{collectives.AVERAGED} {rank}" for rank in (0, 1)]


def test_xlas_own_collectives_step_vote_sum_and_gather(pod: Pod) -> None:
    [worker] = pod.run(["--fake-data"], entry_point=collectives.alone)
    assert worker.exit_code == 0, worker
    assert worker.lines[-1:] == ["done"], worker


def test_each_process_keeps_what_it_compiles_in_its_own_directory(pod: Pod, tmp_path: Path) -> None:
    wanted = ["--fake-data", "--logdir", str(tmp_path / "one")]
    [worker] = pod.run(wanted, entry_point=collectives.cached, PJRT_LOCAL_PROCESS_RANK="3")
    own = tmp_path / "one" / "process-3"
    assert worker.exit_code == 0, worker
    assert worker.lines == [str(own), str(own)], worker
    assert "Compiled graphs are not kept for the next run. There is no home directory for ~/compiled" in worker.err
    assert list(own.iterdir()), "torch_xla has written nothing there"
    assert not (tmp_path / "other").exists()
