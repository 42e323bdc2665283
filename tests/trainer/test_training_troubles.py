"""Tests of failures in real trainings: one rank reports one sentence, and no rank is left hanging."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.timing

from tests.trainer import collectives, layouts
from tests.trainer.conftest import Pod, Worker, skip_without_packages
from tests.trainer.test_training import event_curves

skip_without_packages()

TINY = ["--model", "tiny", "--batch-size", "8", "--log-steps", "1", "--timeout", "60"]
FOR_EVER = ["--epochs", "100000", "--steps-per-epoch", "2"]


XLA_IS_SLOW = re.compile(
    r"^[^\n]*slow_operation_alarm\.cc.*?attach the results\.(?:\n\**$)?", re.MULTILINE | re.DOTALL
)
"""XLA's warning about an operation that takes long, which also comes when a rank was stopped meanwhile."""


def the_only_sentence(workers: list[Worker]) -> str:
    """Return the only line that all workers wrote to standard error, apart from warnings of PyTorch and XLA."""
    lines = [line for worker in workers for line in XLA_IS_SLOW.sub("", worker.err).splitlines()]
    sentences = [line for line in lines if line and not re.match(r"\[W\d+ ", line)]
    assert len(sentences) == 1, "\n".join(sentences)
    return sentences[0]


def test_one_rank_reports_what_concerns_all(pods: Callable[[], Pod], shapes: str, tmp_path: Path) -> None:
    """The errors are a missing directory, a batch larger than the epoch, and a checkpoint of another model."""
    checkpoints = str(tmp_path / "kept")
    short = ["--epochs", "1", "--steps-per-epoch", "1"]
    [first] = pods().run([*TINY, "--data", shapes, *short, "--checkpoint-dir", checkpoints])
    assert first.exit_code == 0, first
    another = ["--model", "tiny-batchnorm", "--data", shapes, "--batch-size", "8"]
    wrong = {
        "There is no directory": [*TINY, "--data", shapes + "-not-there"],
        "A batch of 129 is more than each of 2 cores gets": [*TINY, "--data", shapes, "--batch-size", "129"],
        "checkpoint-000001.pt is of another model: tiny for 10 classes, not tiny-batchnorm for 10": [
            *another,
            "--resume",
            f"{checkpoints}/checkpoint-000001.pt",
        ],
        "is of another model: tiny for": [*another, "--checkpoint-dir", checkpoints],
    }
    running = {sentence: pods() for sentence in wrong}
    for sentence, arguments in wrong.items():
        running[sentence].start(arguments, workers=2)
    for sentence, pod in running.items():
        workers = pod.wait()
        assert [worker.exit_code for worker in workers] == [2, 2], workers
        assert sentence in the_only_sentence(workers)


def test_one_rank_reports_what_several_cores_meet_at_once(pod: Pod, shapes: str, tmp_path: Path) -> None:
    for path in Path(shapes).glob("*-train-*.tar"):
        shutil.copy(path, tmp_path)
    patterns = ["--train-shards", f"{tmp_path}/*-train-*.tar", "--classes", "2"]  # the set has ten classes
    workers = pod.run([*TINY, *patterns, "--shuffle-buffer", "1"], cores=4)
    assert [worker.exit_code for worker in workers] == [2], workers
    assert re.match(r"Sample \d+ of .*\.tar has class \d: there are 2 classes", the_only_sentence(workers))


def test_an_epoch_without_a_readable_validation_shard_has_no_accuracy(pod: Pod, shapes: str, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "set")
    for path in (tmp_path / "set").glob("*-val-*.tar"):
        path.write_bytes(b"x" * path.stat().st_size)
    checkpoints = tmp_path / "kept"
    short = ["--epochs", "2", "--steps-per-epoch", "2"]
    options = [*short, "--on-bad-shard", "skip", "--checkpoint-dir", str(checkpoints)]
    workers = pod.run([*TINY, "--data", str(tmp_path / "set"), *options], cores=2)
    assert [worker.exit_code for worker in workers] == [2]
    [sentence] = [line for line in workers[0].err.splitlines() if "no accuracy" in line]
    assert "Epoch 1 has no accuracy: none of the validation shards can be read" in sentence
    assert "Accuracy=0" not in workers[0].out
    assert "at epoch 1 after step 2" in workers[0].out


@pytest.mark.parametrize("option", ["--data", "--checkpoint-dir", "--logdir"])
def test_one_rank_reports_a_missing_bucket(pod: Pod, object_store: str, option: str) -> None:
    fake = [] if option == "--data" else ["--fake-data", "--image-size", "32"]
    workers = pod.run([*TINY, *fake, option, "gs://no-such-bucket/here"], workers=2)
    assert [worker.exit_code for worker in workers] == [2, 2], workers
    assert the_only_sentence(workers).startswith("There is no bucket gs://no-such-bucket. Make it with: ")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system with room for three checkpoints of the tiny model; four exist for a moment."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_one_rank_reports_a_full_disk_and_the_last_checkpoint_stays_whole(
    pod: Pod, shapes: str, small_disk: Path
) -> None:
    keep = ["--checkpoint-dir", str(small_disk / "kept"), "--checkpoint-steps", "1"]
    workers = pod.run([*TINY, "--data", shapes, *FOR_EVER, *keep], workers=2)
    assert [worker.exit_code for worker in workers] == [2, 2], workers
    sentence = the_only_sentence(workers)
    found = re.match(
        r"Cannot write .*/kept/checkpoint-(\d+)\.(pt|json): No space left on device\. Make room", sentence
    )
    assert found, sentence
    from trainer.checkpoint import store
    from trainer.checkpoint.store import Identity

    newest = store.load_named(str(small_disk / "kept"), Identity("tiny", 10, ""))
    assert int(newest.pointer.file[11:17]) in (int(found[1]) - 1, int(found[1]) - 2)
    assert not [path for path in (small_disk / "kept").iterdir() if path.name.startswith(".")]


def test_one_rank_reports_a_device_without_enough_memory(pod: Pod) -> None:
    workers = pod.run(["--fake-data"], workers=2, cores=2, entry_point=collectives.out_of_memory)
    assert [worker.exit_code for worker in workers] == [2, 2], workers
    assert re.fullmatch(
        r"Rank \d \(worker \d, core \d\): Out of memory: Error preparing computation: Out of memory allocating "
        r"52848750852 bytes\. Give a smaller --batch-size or .*",
        the_only_sentence(workers),
    )


def test_a_training_that_diverges_ends_in_a_sentence_and_nothing_of_it_is_kept(
    pod: Pod, shapes: str, tmp_path: Path
) -> None:
    from trainer.checkpoint import store
    from trainer.checkpoint.store import Identity

    keep = ["--checkpoint-dir", str(tmp_path / "kept"), "--checkpoint-steps", "1"]
    workers = pod.run([*TINY, "--data", shapes, *FOR_EVER, "--learning-rate", "1e6", *keep], workers=2)
    assert [worker.exit_code for worker in workers] == [2, 2], workers
    assert re.match(
        r"The training diverged: .*epoch \d+ .*\. Give a smaller --learning-rate", the_only_sentence(workers)
    )
    passed_over: list[str] = []
    assert store.find_newest(str(tmp_path / "kept"), Identity("tiny", 10, ""), passed_over.append)
    assert not passed_over


def test_the_curves_of_a_training_that_diverges_show_it(pod: Pod, shapes: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    too_fast = ["--learning-rate", "1e9", "--warmup-epochs", "0"]
    [worker] = pod.run([*TINY, "--data", shapes, *too_fast, "--logdir", str(tmp_path / "logs")])
    assert worker.exit_code == 2, worker
    [file] = (tmp_path / "logs").iterdir()
    *_, (_, loss) = event_curves(file.read_bytes())["train/loss"]
    assert not math.isfinite(loss)


def test_a_training_without_a_reader_of_its_log_saves_and_ends(pod: Pod, shapes: str, tmp_path: Path) -> None:
    keep = ["--checkpoint-dir", str(tmp_path / "kept")]
    [worker] = pod.run([*TINY, "--data", shapes, *FOR_EVER, *keep], cores=2, entry_point=layouts.into_head)
    assert worker.exit_code == 128 + signal.SIGTERM, worker
    assert len(worker.lines) == 20
    printed = re.fullmatch(
        r"Stopping (?:at epoch (\d+) step|in the evaluation of epoch) \d+, because the log's reader has gone\.",
        the_only_sentence([worker]),
    )
    assert printed, worker
    assert (tmp_path / "kept" / "checkpoint-000001.json").exists()


@pytest.mark.parametrize(
    "when", ["coming up", "Compiling the training step for xla:0/1", "Compiling the evaluation for xla:0/1"]
)
def test_when_a_rank_dies_its_worker_reports_it_and_the_others_end(pod: Pod, shapes: str, when: str) -> None:
    timeout = ["--timeout", "2"] if when == "coming up" else []
    pod.start([*TINY, "--data", shapes, *FOR_EVER, *timeout], workers=2)
    if when != "coming up":
        pod.await_text(1, when)
    [victim] = pod.ranks(1)
    os.kill(victim, signal.SIGKILL)
    other, killed = pod.wait()
    assert killed.exit_code == 128 + signal.SIGKILL, killed
    assert "Rank 1 (worker 1, core 0) was killed by SIGKILL" in killed.err
    assert other.exit_code == 75, other
    reported = r"Rank 1 \(worker 1, core 0\) ended or froze: "
    if when == "coming up":
        reported += "|1 of 2 ranks did not come within 2 s: missing from worker 1|Another rank ended or froze"
    assert re.match(rf"Rank 0 \(worker 0, core 0\): ({reported})", the_only_sentence([other]))


def test_a_lost_rank_is_reported_by_the_core_that_meets_it(pod: Pod, shapes: str) -> None:
    pod.start([*TINY, "--data", shapes, *FOR_EVER, "--timeout", "5"], cores=2)
    pod.await_text(0, "Step=1 ")
    frozen, _ = pod.ranks(0)
    os.kill(frozen, signal.SIGSTOP)
    try:
        pod.await_text(0, "ended or froze", "err")
    finally:
        os.kill(frozen, signal.SIGCONT)
    [worker] = pod.wait()
    assert worker.exit_code == 75, worker
    sentence = the_only_sentence([worker])
    assert re.match(r"Rank 1 \(worker 0, core 1\): Rank 0 \(worker 0, core 0\) ended or froze: Timed out", sentence)


def test_a_living_rank_that_falls_behind_is_named(pod: Pod, shapes: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    reported = f"read -r _ _ _ reader _ < /proc/$PPID/stat; echo $reader >> {log}"
    hang = f"[ $reader != $(head -n 1 {log}) ] && exec sleep 1000"  # all but rank 0, which counts the samples
    shards = f"pipe:{reported}; {hang}; cat {shapes}/shapes-train-{{000000..000007}}.tar"
    options = ["--classes", "10", "--image-size", "32", "--shuffle-buffer", "1", "--timeout", "5"]
    workers = pod.run([*TINY, *options, "--train-shards", shards], workers=2)
    assert [worker.exit_code for worker in workers] == [75, 75], workers
    assert re.search(
        r"Rank 0 \(worker 0, core 0\): Rank 1 \(worker 1, core 0\) fell behind the others: Timed out .*"
        r"See the last lines of worker 1, and check whether its input hangs",
        workers[0].err,
    )
    assert (
        "Rank 1 (worker 1, core 0): The others ended, since this rank did not reach the next step." in workers[1].err
    )


def test_a_frozen_rank_delays_the_others_for_no_longer_than_the_timeout(pod: Pod, shapes: str) -> None:
    pod.start([*TINY, "--data", shapes, *FOR_EVER, "--timeout", "5"], workers=2)
    pod.await_text(1, "Step=1 ")
    [victim] = pod.ranks(1)
    os.kill(victim, signal.SIGSTOP)
    try:
        pod.processes[0].join(100)
        assert pod.processes[0].exitcode == 75
    finally:
        os.kill(victim, signal.SIGKILL)
    other, _ = pod.wait()
    reported = "Rank 0 (worker 0, core 0): Rank 1 (worker 1, core 0) ended or froze: Timed out"
    assert reported in the_only_sentence([other])


def test_ctrl_c_prints_what_it_does_and_the_second_one_ends_at_once(pod: Pod) -> None:
    pod.start([*TINY, "--fake-data", "--image-size", "32", *FOR_EVER])
    pod.await_text(0, "Step=1 ")
    [rank] = pod.ranks(0)
    os.kill(rank, signal.SIGSTOP)  # so that the rank cannot react to the first SIGINT
    os.kill(pod.pid(0), signal.SIGINT)
    pod.await_text(0, "Ctrl-C again ends at once", "err")
    os.kill(pod.pid(0), signal.SIGINT)
    [worker] = pod.wait()
    assert worker.exit_code == 128 + signal.SIGTERM, worker
    assert worker.err == "Stopping at the next step; Ctrl-C again ends at once.\nEnding at once.\n"


def test_a_rank_without_a_parent_ends_by_itself(pod: Pod) -> None:
    pod.start([*TINY, "--fake-data"], entry_point=layouts.ignore_stop)
    pod.await_text(0, "Ready.")
    os.kill(pod.pid(0), signal.SIGTERM)
    [worker] = pod.wait()
    assert worker.exit_code == -signal.SIGALRM, worker


def test_replicas_that_torch_xla_starts_save_when_the_machine_is_shut_down(
    pod: Pod, shapes: str, tmp_path: Path
) -> None:
    """As on TPU: replicas are threads, libtpu would end the process, and systemd sends two signals at once."""
    keep = ["--checkpoint-dir", str(tmp_path / "kept")]
    pod.start([*TINY, "--data", shapes, "--loader-workers", "2", *FOR_EVER, *keep], entry_point=layouts.as_on_tpu)
    pod.await_text(0, "Step=1 ")
    os.killpg(pod.pid(0), signal.SIGTERM)
    os.killpg(pod.pid(0), signal.SIGHUP)
    [worker] = pod.wait()
    assert worker.exit_code == 128 + signal.SIGTERM, worker
    found = re.search(r"^Stopping on SIGTERM (?:at|in the evaluation of) epoch \d+", worker.out, re.M)
    assert found, worker
    assert re.search(r"^Saved Model Checkpoint file .* at epoch \d+ after step \d\.$", worker.out, re.M)
    assert worker.err == ""


def test_a_worker_exits_with_the_code_of_what_stopped_its_replica_that_torch_xla_started(
    pods: Callable[[], Pod],
) -> None:
    fake = [*TINY, "--fake-data", "--image-size", "32"]
    [worker] = pods().run([*fake, "--resume", "/nowhere/nothing.pt"], entry_point=layouts.as_on_tpu)
    assert worker.exit_code == 2, worker
    assert the_only_sentence([worker]).startswith("Cannot read /nowhere/nothing.json")
    killed = pods()
    killed.start([*fake, *FOR_EVER], entry_point=layouts.as_on_tpu)
    killed.await_text(0, "Step=1 ")
    [victim] = killed.ranks(0)
    os.kill(victim, signal.SIGKILL)
    [worker] = killed.wait()
    assert worker.exit_code == 128 + signal.SIGKILL
    assert the_only_sentence([worker]).startswith("A rank of worker 0 was killed by SIGKILL")
