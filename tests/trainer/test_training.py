"""Tests of real trainings of a few steps, in real processes, as tpu-tui starts them."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.timing

from tests.trainer.conftest import Pod, Worker, children, proc_file, skip_without_packages

skip_without_packages()

TRAINING = re.compile(
    r"\| Training Device=xla:0/(\d+) Epoch=(\d+) Step=(\d+) Loss=([\d.]+) "
    r"Rate=[\d.]+ GlobalRate=[\d.]+ Time=\d\d:\d\d:\d\d"
)
TINY = ["--model", "tiny", "--batch-size", "8", "--log-steps", "1", "--timeout", "60"]
SMALL = ["--model", "tiny-batchnorm", "--batch-size", "8", "--log-steps", "1", "--timeout", "60"]


def losses(lines: list[str]) -> list[float]:
    return [float(match[4]) for match in map(TRAINING.fullmatch, lines) if match]


TWO_EPOCHS = ["--epochs", "2", "--warmup-epochs", "0.25", "--learning-rate", "1", "--steps-per-epoch", "10"]
LOADERS = ["--loader-workers", "2"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory to which those two workers write TensorBoard's event files."""
    return tmp_path_factory.mktemp("events") / "made"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, colours: str, events: Path) -> Iterator[list[Worker]]:
    """Return the output of two workers that trained for two epochs undisturbed."""
    running = Pod(tmp_path_factory.mktemp("trained"))
    logs = ["--logdir", str(events)]
    yield running.run([*TINY, "--data", colours, *TWO_EPOCHS, *LOADERS, "--metrics-debug", *logs], workers=2)
    running.end()


def test_two_workers_train_to_a_lower_loss_and_the_same_parameters(trained: list[Worker]) -> None:
    assert [worker.exit_code for worker in trained] == [0, 0], trained
    for rank, worker in enumerate(trained):
        curve = losses(worker.lines)
        assert len(curve) == 2 * 10
        assert median(curve[10:]) < 0.5 * curve[0]
        assert {m[1] for m in map(TRAINING.fullmatch, worker.lines) if m} == {str(rank)}
        assert any(line.startswith(f"Compiling the training step for xla:0/{rank}") for line in worker.lines)
        assert [line for line in worker.lines if line.startswith("| Test Device=")]
    printed = "\n".join(trained[0].lines)
    assert "256 training samples in 8 shards: 10 steps an epoch, 96 samples dropped; 48 for validation" in printed
    assert re.search(r"^Epoch 1 train begin \d\d:\d\d:\d\d$", printed, re.M)
    assert re.search(r"^Epoch 2 train end .*, Replica Train Samples=80, Reduced GlobalRate=[\d.]+$", printed, re.M)
    assert re.search(
        r"^Epoch 2 waited for data [\d.]+ s, [\d.]+% of the time; longest .* on core [01]$", printed, re.M
    )
    assert re.search(r"^Epoch 2 test end .*, Replica Test Samples=24$", printed, re.M)
    assert re.search(r"^All 2 replicas hold the same parameters: sha256 [0-9a-f]{16}$", printed, re.M)
    assert re.search(r"^Max Accuracy: [\d.]+%$", printed, re.M)
    assert "Epoch 1 train" not in "\n".join(trained[1].lines)


def test_the_rate_of_the_run_is_the_average_of_its_epochs(trained: list[Worker]) -> None:
    rates = [float(rate) for rate in re.findall(r"Reduced GlobalRate=([\d.]+)", trained[0].out)]
    [average] = re.findall(r"^Avg\. Global Rate: ([\d.]+) examples per second$", trained[0].out, re.M)
    assert len(rates) == 2
    assert min(rates) < float(average) < max(rates)


def test_tensorboards_curves_are_those_in_the_log(trained: list[Worker], events: Path) -> None:
    [file] = events.iterdir()  # only rank 0 writes one
    curves = event_curves(file.read_bytes())
    assert [round(value, 5) for _, value in curves["train/loss"]] == pytest.approx(losses(trained[0].lines), abs=2e-5)
    assert [step for step, _ in curves["train/loss"]] == list(range(20))
    accuracies = re.findall(r"Reduced Accuracy=([\d.]+)%", trained[0].out)
    assert [value for _, value in curves["test/accuracy"]] == pytest.approx([float(a) for a in accuracies], abs=0.01)
    for curve in (
        "test/accuracy",
        "epoch/global_rate",
    ):  # a run resumed at step 10 voids 10 and later
        assert [step for step, _ in curves[curve]] == [9, 19]
    rates = re.findall(r"Reduced GlobalRate=([\d.]+)", trained[0].out)
    assert [value for _, value in curves["epoch/global_rate"]] == pytest.approx([float(r) for r in rates], abs=0.02)
    assert curves.keys() >= {"train/rate", "train/learning_rate", "epoch/waiting_percent"}


def event_curves(content: bytes) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each curve in an event file, which is a TFRecord file of Event messages with checksums."""
    import google_crc32c
    from tensorboardX.proto.event_pb2 import Event

    def checked(data: bytes, reported: bytes) -> bytes:
        crc = google_crc32c.value(data)
        assert (
            int.from_bytes(reported, "little") == (((crc >> 15 | crc << 17) & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
        )
        return data

    curves: dict[str, list[tuple[int, float]]] = {}
    offset = 0
    while offset < len(content):
        length = int.from_bytes(checked(content[offset : offset + 8], content[offset + 8 : offset + 12]), "little")
        start, end = offset + 12, offset + 12 + length
        event = Event.FromString(checked(content[start:end], content[end : end + 4]))
        for value in event.summary.value:
            curves.setdefault(value.tag, []).append((event.step, value.simple_value))
        offset = end + 4
    return curves


def test_nothing_is_compiled_after_the_second_step(trained: list[Worker]) -> None:
    for worker in trained:
        [last] = [line for line in worker.lines if line.startswith("Epoch 2 metrics")]
        assert re.search(r": [1-9]\d* graphs compiled in [\d.]+ s, 0 after step 2; ", last)
        assert "again" not in worker.out


def test_a_run_killed_in_mid_epoch_and_resumed_continues_as_if_it_had_never_stopped(
    trained: list[Worker], pods: Callable[[], Pod], colours: str, tmp_path: Path
) -> None:
    pod = pods()
    keep = ["--checkpoint-dir", str(tmp_path / "kept"), "--checkpoint-steps", "3", "--target-accuracy", "100"]
    arguments = [*TINY, "--data", colours, *TWO_EPOCHS, *LOADERS, *keep, "--logdir", str(tmp_path / "events")]
    pod.start(arguments, workers=2)
    pod.await_text(0, f"Epoch={random.choice((1, 2))} Step={random.randrange(4, 9)} ")
    for worker in (0, 1):
        os.killpg(pod.pid(worker), signal.SIGKILL)
    killed = pod.wait()
    assert {worker.exit_code for worker in killed} == {-signal.SIGKILL}

    resumed = pods().run(arguments, workers=2)
    found = re.search(r"^Resumed from .*checkpoint-\d+\.pt at epoch ([12]) after step (\d+)$", resumed[0].out, re.M)
    assert found, resumed
    first = 10 * (int(found[1]) - 1) + int(found[2])
    assert first > 0
    for before, after in zip(trained, resumed, strict=True):
        assert len(losses(after.lines)) == 2 * 10 - first
        assert losses(after.lines) == losses(before.lines)[first:]
    curves = [event_curves(file.read_bytes()) for file in sorted((tmp_path / "events").iterdir())]
    assert {step for each in curves for step, _ in each.get("train/loss", [])} == set(range(20))
    same = "All 2 replicas hold the same parameters"
    assert [line for line in resumed[0].lines if "Reduced Accuracy" in line]
    assert any(line.startswith(same) for line in resumed[0].lines)
    below = "is below the target of 100%" in resumed[0].err
    assert [worker.exit_code for worker in resumed] == [21 if below else 0] * 2
    assert below == ("Max Accuracy: 100.00%" not in resumed[0].lines)


def test_batch_statistics_are_restored_on_each_core(pods: Callable[[], Pod], colours: str, tmp_path: Path) -> None:
    keep = ["--checkpoint-dir", str(tmp_path / "kept"), "--bf16", "--label-smoothing", "0.1"]
    arguments = [*SMALL, "--data", colours, "--epochs", "1", "--steps-per-epoch", "3", *keep]
    [first] = pods().run(arguments, cores=2)
    [second] = pods().run(arguments, cores=2)
    assert (first.exit_code, second.exit_code) == (0, 0), (first, second)
    assert "nothing is left to train" in second.out
    assert not losses(second.lines)
    assert "Global Rate" not in second.out
    same = "All 2 replicas hold the same parameters"
    [before], [after] = ([line for line in worker.lines if line.startswith(same)] for worker in (first, second))
    assert before == after  # the hash covers the statistics too


def _children(parents: list[int]) -> list[int]:
    return [pid for parent in parents for pid in children(parent)]


def test_on_signals_to_the_whole_session_all_cores_save_at_the_same_step_and_end(
    pod: Pod, colours: str, tmp_path: Path
) -> None:
    """The data come from loader processes that read from commands: the signal reaches those as well."""
    shards = f"pipe:cat {colours}/colours-train-{{000000..000007}}.tar"
    data = ["--train-shards", shards, "--classes", "4", "--image-size", "32", "--loader-workers", "1"]
    keep = ["--checkpoint-dir", str(tmp_path / "kept")]
    pod.start([*SMALL, *data, *keep, "--epochs", "1000"], cores=2)
    pod.await_text(0, "Step=1 ")
    ranks = pod.ranks(0)
    assert len(ranks) == 2
    deadline = time.monotonic() + 120
    loaders: list[int] = []
    while len(loaders) < 2:  # a loader ends when its epoch is read
        assert time.monotonic() < deadline
        time.sleep(0.01)
        servers = [pid for pid in _children([pod.pid(0)]) if pid not in ranks]
        loaders = _children(servers)
    processes = [*ranks, *servers, *loaders]
    mapped = [proc_file(pid, "maps") for pid in loaders]
    assert any(mapped)
    assert not any(b"_XLAC" in each for each in mapped), "a loader has loaded torch_xla, which takes seconds"
    os.killpg(pod.pid(0), signal.SIGHUP)
    os.killpg(pod.pid(0), signal.SIGTERM)
    [worker] = pod.wait()
    assert worker.exit_code == 128 + signal.SIGTERM, worker
    found = re.search(r"^Stopping on SIGTERM at epoch (\d+) step (\d+)$", worker.out, re.M)
    assert found, worker
    saved = f"Saved Model Checkpoint file {tmp_path}/kept/checkpoint-000001.pt"
    assert f"{saved} at epoch {found[1]} after step {int(found[2]) + 1}." in worker.lines
    by_rank = [[m.group(2, 3) for m in map(TRAINING.fullmatch, worker.lines) if m and m[1] == rank] for rank in "01"]
    assert by_rank[0] == by_rank[1]
    assert "Traceback" not in worker.err
    while [pid for pid in processes if Path(f"/proc/{pid}").exists()]:  # a server ends once its rank has ended
        assert time.monotonic() < deadline + 60
        time.sleep(0.01)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "checkpoint-000001.json",
        "checkpoint-000001.pt",
    ]


def test_workers_that_do_not_join_are_named(pod: Pod) -> None:
    [worker] = pod.run([*TINY, "--fake-data", "--timeout", "1"], TPU_TUI_WORKERS="3")
    assert worker.exit_code == 75
    assert "2 of 3 ranks did not come within 1 s: missing from worker 1, 2" in worker.err


def test_the_coordinators_port_may_be_in_use_on_another_address() -> None:
    from trainer.distributed.rendezvous import listen
    from trainer.errors import TrainerError

    with socket.create_server(("127.0.91.2", 0)) as other:
        port = other.getsockname()[1]
        with listen(("127.0.91.3", port)) as own:
            assert own.getsockname() == ("127.0.91.3", port)
        with pytest.raises(TrainerError, match=rf"cannot listen on 127.0.91.2:{port}"):
            listen(("127.0.91.2", port))


def test_a_program_on_the_coordinators_port_that_never_answers_is_reported_after_the_timeout() -> None:
    from trainer.config import ReplicaConfig
    from trainer.distributed.rendezvous import join_ranks
    from trainer.errors import PartnerLostError

    with socket.create_server(("127.0.91.4", 0)) as other:
        address = other.getsockname()[:2]
        place = ReplicaConfig(worker=1, workers=2, coordinator=address, timeout=1.0)
        with pytest.raises(PartnerLostError, match=r"What listens at 127.0.91.4:\d+ does not answer like worker 0"):
            join_ranks(place, 0, address, None, lambda: False)


Meet = Callable[..., list[str]]


@pytest.fixture
def meet_at() -> Iterator[Meet]:
    """Return a function that has ranks meet at one coordinator, and returns the outcome of each as one line."""
    from trainer.config import ReplicaConfig
    from trainer.distributed.rendezvous import join_ranks, listen
    from trainer.errors import TrainerError

    with listen(("127.0.91.5", 0)) as listener, ThreadPoolExecutor() as pool:
        address = listener.getsockname()[:2]
        references: list[object] = []  # an error holds its rank's store, which others may need

        def join(place: ReplicaConfig) -> str:
            try:
                references.append(join_ranks(place, 0, address, None if place.worker else listener, lambda: False))
            except TrainerError as error:
                references.append(error)
                return f"{type(error).__name__}: {error}"
            return "met"

        def meet(*workers: dict[str, object]) -> list[str]:
            places = [ReplicaConfig(coordinator=address, timeout=60, **{"workers": 2, **each}) for each in workers]
            return [end.replace(f":{address[1]}", "") for end in pool.map(join, places)]

        yield meet


ENDS = "PartnersMissingError: Some ranks did not come."


def test_a_second_rank_of_the_same_number_is_refused_and_does_not_join_another_run(meet_at: Meet) -> None:
    assert meet_at({"worker": 0}, {"worker": 1}) == ["met", "met"]
    assert meet_at({"worker": 1}) == [
        "TrainerError: Rank 1 has already joined at 127.0.91.5: another run holds that port, or two workers have the "
        "same TPU_TUI_WORKER. Set TPU_TUI_COORDINATOR to a free port on every worker, and TPU_TUI_WORKER to its own "
        "number."
    ]


def test_two_workers_of_the_same_number_end_a_starting_slice_and_one_reports_why(meet_at: Meet) -> None:
    first, *others = meet_at(*({"workers": 3, "worker": worker} for worker in (0, 1, 1)))
    assert first == ENDS
    assert sorted(others)[0] == ENDS
    assert sorted(others)[1].startswith("TrainerError: Rank 1 has already joined")


@pytest.mark.parametrize("odd", [{"cores": 2}, {"workers": 3}], ids=["cores", "workers"])
def test_workers_that_disagree_on_their_number_end_and_one_reports_why(meet_at: Meet, odd: dict[str, int]) -> None:
    first, second = meet_at({"worker": 0}, {"worker": 1, **odd})
    shape = {"cores": "2 workers of 2 cores", "workers": "3 workers of 1 core"}[next(iter(odd))]
    assert first == ENDS
    assert second == (
        f"TrainerError: Worker 1 expects {shape}: worker 0 expects 2 workers of 1 core. "
        "Set TPU_TUI_WORKERS and TPU_TUI_CORES alike on all workers, and give all the same --num-cores."
    )


def test_a_worker_of_another_run_is_refused_and_the_slice_comes_up_without_it(meet_at: Meet) -> None:
    other, *own = meet_at({"worker": 1, "run": "other"}, {"worker": 0, "run": "own"}, {"worker": 1, "run": "own"})
    assert own == ["met", "met"]
    assert other.startswith("TrainerError: Another run has its coordinator at 127.0.91.5: it is own. Stop it, or set")


def test_gloo_takes_the_interface_that_leads_to_the_coordinator() -> None:
    from trainer.distributed.rendezvous import interface_towards

    assert interface_towards("127.0.91.1", 1) == "lo"
    assert interface_towards("name.invalid", 1) is None


def test_the_learning_rate_warms_up_scales_with_the_batch_and_decays_to_nothing() -> None:
    from trainer.config import OptimizerConfig
    from trainer.model.optimizer import learning_rate

    config = OptimizerConfig(batch_size=128, learning_rate=0.1, epochs=5, warmup_epochs=1)
    rates = [learning_rate(config, 4, step, 10) for step in range(50)]
    assert max(rates) == pytest.approx(0.2)
    assert rates[0] == pytest.approx(0.02)
    assert rates.index(max(rates)) in (9, 10)
    assert 0 < rates[-1] < 0.002 * max(rates)  # not 0, which would compile another graph
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
