"""Tests of resumed runs: after a trainer with another order of samples, and after a kill during an upload."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.trainer.conftest import SAVED_RUN, Pod, Worker, skip_without_packages
from trainer.checkpoint.store import checksum_of
from trainer.data import pipeline
from trainer.errors import REFUSED
from trainer.storage import objects

skip_without_packages()

STEP = re.compile(r"\| Training Device=xla:0/\d+ Epoch=(\d+) Step=(\d+) .*")
TINY = ["--model", "tiny-batchnorm", "--batch-size", "8", "--log-steps", "1", "--timeout", "60"]


def steps(lines: list[str]) -> list[tuple[int, int]]:
    """Return the epoch and step of each training line."""
    return [(int(match[1]), int(match[2])) for match in map(STEP.fullmatch, lines) if match]


def change_pointer(checkpoints: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the only checkpoint's pointer, as if another trainer had saved it."""
    path = checkpoints / "checkpoint-000001.json"
    pointer = json.loads(path.read_text())
    change(pointer)
    path.write_text(json.dumps({**pointer, "checksum": checksum_of(pointer)}))


def resume(pod: Pod, colours: str, checkpoints: Path) -> tuple[Worker, str]:
    """Run two cores again, and return their output and the line about the checkpoint."""
    [worker] = pod.run([*SAVED_RUN, "--data", colours, "--checkpoint-dir", str(checkpoints)], cores=2)
    assert worker.exit_code == 0, worker
    [printed] = [line for line in worker.lines if line.startswith("Resumed from ")]
    return worker, printed


@pytest.mark.parametrize(
    ("step", "order", "begins_at"),
    [(2, 1, 0), (1, None, 0), (3, 1, 3)],
    ids=["an older order", "an order without a number", "an older order, and all steps done"],
)
def test_an_epoch_with_another_order_of_samples_begins_again_and_one_rank_reports_why(
    pod: Pod, checkpoints: Path, colours: str, step: int, order: int | None, begins_at: int
) -> None:
    def change(pointer: dict[str, Any]) -> None:
        assert pointer["identity"].pop("order") == pipeline.ORDER
        pointer["identity"].update({} if order is None else {"order": order})
        pointer["position"]["step"] = step

    change_pointer(checkpoints, change)
    after, printed = resume(pod, colours, checkpoints)
    resumed = f"Resumed from {checkpoints}/checkpoint-000001.pt at epoch 1 after step {begins_at}"
    if begins_at:
        assert printed == resumed
    else:
        again = "the step done in it is" if step == 1 else f"the {step} steps done in it are"
        assert printed == (
            f"{resumed}, from the epoch's beginning: {again} repeated, because it was saved by a trainer that orders "
            f"samples differently (order {order or 0}, here {pipeline.ORDER})"
        )
    assert sorted(steps(after.lines)) == sorted([(1, n) for n in range(begins_at, 3)] * 2)


def test_a_run_resumed_with_another_batch_at_an_epochs_end_reports_that_and_where_from(
    pod: Pod, checkpoints: Path, colours: str
) -> None:
    change_pointer(checkpoints, lambda pointer: pointer["position"].update(epoch=2, step=0))
    [after] = pod.run([*SAVED_RUN, "--data", colours, "--batch-size", "4", "--resume", str(checkpoints)], cores=2)
    assert after.exit_code == 0, after
    [printed] = [line for line in after.lines if line.startswith("Resumed from ")]
    assert printed == (
        f"Resumed from {checkpoints}/checkpoint-000001.pt at epoch 2 after step 0; "
        "data, batch, cores or seed have changed; nothing is left to train"
    )


def test_a_run_of_fewer_epochs_than_are_done_saves_no_checkpoint_of_an_earlier_epoch(
    pod: Pod, checkpoints: Path, colours: str
) -> None:
    change_pointer(checkpoints, lambda pointer: pointer["position"].update(epoch=4, step=0))
    _, printed = resume(pod, colours, checkpoints)
    assert printed.endswith("at epoch 4 after step 0; nothing is left to train")
    assert sorted(path.name for path in checkpoints.iterdir()) == ["checkpoint-000001.json", "checkpoint-000001.pt"]


def test_a_step_beyond_its_epochs_end_begins_the_epoch_again(pod: Pod, checkpoints: Path, colours: str) -> None:
    change_pointer(checkpoints, lambda pointer: pointer["position"].update(step=10**30))
    after, printed = resume(pod, colours, checkpoints)
    assert printed.endswith(f"the {10**30} steps done in it are repeated, because an epoch has 3 steps")
    assert sorted(steps(after.lines)) == sorted([(1, n) for n in range(3)] * 2)


def test_a_checkpoint_of_counters_that_the_model_lacks_is_refused_with_one_of_them(
    pod: Pod, checkpoints: Path, colours: str
) -> None:
    path = checkpoints / "checkpoint-000001.pt"
    torch.save({**torch.load(path, weights_only=True), "integers": {"nope": 5}}, path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    change_pointer(checkpoints, lambda pointer: pointer.update(size=len(content), sha256=digest))
    [after] = pod.run([*SAVED_RUN, "--data", colours, "--checkpoint-dir", str(checkpoints)], cores=2)
    assert after.exit_code == REFUSED, after
    assert after.err.count("does not fit the model: the model does not count nope. Give another --resume") == 1
    assert "Traceback" not in after.err


class StuckProxy:
    """A proxy before the object store that stops for good in the middle of the upload or deletion of one object."""

    def __init__(self, server: str, name: str, body: int, *methods: bytes) -> None:
        """Listen; forward only `body` bytes of an upload to the object called `name`, or of what `methods` do."""
        host, port = server.removeprefix("http://").split(":")
        self._address, self._name, self._body = (host, int(port)), name.encode(), body
        self._methods = methods or (b"POST", b"PUT")
        self.held = threading.Event()
        self._released = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def release(self) -> None:
        """Break off what is stuck, and forward everything from now on."""
        self._released.set()

    def close(self) -> None:
        self.release()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(client,)).start()

    def _connection(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._address) as server:
            while request := self._head(client):
                head, _, body = request.partition(b"\r\n\r\n")
                length = re.search(rb"\r\ncontent-length: (\d+)", head, re.I)
                whole = int(length[1]) if length else 0
                while len(body) < whole and (part := client.recv(min(65536, whole - len(body)))):
                    body += part
                is_meant = self._name in head + body[:1000] and not self._released.is_set()
                if is_meant and head.startswith(self._methods):
                    server.sendall(head + b"\r\n\r\n" + body[: self._body])
                    self.held.set()
                    self._released.wait()
                    return
                server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n" + body)
                while answer := server.recv(65536):
                    client.sendall(answer)
                return

    @staticmethod
    def _head(client: socket.socket) -> bytes:
        request = b""
        while b"\r\n\r\n" not in request and (part := client.recv(65536)):
            request += part
        return request


@pytest.fixture
def stuck_proxy(object_store: str) -> Iterator[Callable[..., StuckProxy]]:
    """Return a function that makes such a proxy."""
    made: list[StuckProxy] = []

    def make(name: str, body: int, *methods: bytes) -> StuckProxy:
        made.append(StuckProxy(object_store, name, body, *methods))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("name", "methods"),
    [("checkpoint-000001.pt", []), ("checkpoint-000001.json", [b"DELETE"])],
    ids=["for a new checkpoint", "to delete an old one"],
)
def test_a_bucket_that_does_not_answer_is_named_before_the_other_ranks_time_out(
    pod: Pod, stuck_proxy: Callable[..., StuckProxy], tmp_path: Path, name: str, methods: list[bytes]
) -> None:
    place = f"gs://trainer-test/{tmp_path.name}"
    proxy = stuck_proxy(name, 20_000, *methods)
    fake = ["--fake-data", "--image-size", "32", "--epochs", "1", "--steps-per-epoch", "5"]
    keep = ["--checkpoint-dir", place, "--checkpoint-steps", "1", "--timeout", "15"]
    [worker] = pod.run([*TINY, *fake, *keep], cores=2, STORAGE_EMULATOR_HOST=proxy.url)
    assert worker.exit_code == 2, worker
    assert f"Cloud Storage does not serve {place}/{name}: " in worker.err
    assert "Check the network and the bucket." in worker.err


def test_a_checkpoint_may_take_longer_to_read_than_a_rank_waits_for_the_others(
    pod: Pod, stuck_proxy: Callable[..., StuckProxy], checkpoints: Path, colours: str, tmp_path: Path
) -> None:
    place, timeout = f"gs://trainer-test/{tmp_path.name}", 15
    for path in checkpoints.iterdir():
        objects.write(f"{place}/{path.name}", path.read_bytes())
    proxy = stuck_proxy("checkpoint-000001.pt", 0, b"GET")
    arguments = [*SAVED_RUN, "--data", colours, "--checkpoint-dir", place, "--timeout", str(timeout)]
    pod.start(arguments, cores=2, STORAGE_EMULATOR_HOST=proxy.url)
    assert proxy.held.wait(100), pod.path(0, "err").read_text()
    time.sleep(timeout + 1)
    proxy.release()
    [worker] = pod.wait()
    assert worker.exit_code == 0, worker
    assert f"Resumed from {place}/checkpoint-000001.pt" in worker.out


@pytest.mark.parametrize(
    ("name", "body", "left_behind"),
    [("checkpoint-000002.pt", 20_000, False), ("checkpoint-000002.json", 0, True)],
    ids=["in the middle of the state", "between the state and its pointer"],
)
def test_a_run_killed_while_it_uploads_a_checkpoint_resumes_from_the_last_whole_one(
    pods: Callable[[], Pod],
    object_store: str,
    stuck_proxy: Callable[..., StuckProxy],
    colours: str,
    tmp_path: Path,
    name: str,
    body: int,
    left_behind: bool,
) -> None:
    place = f"gs://trainer-test/{tmp_path.name}"
    keep = ["--checkpoint-dir", place, "--checkpoint-steps", "2"]
    arguments = [*TINY, "--data", colours, "--epochs", "1", "--steps-per-epoch", "5", *keep]
    proxy, killed = stuck_proxy(name, body), pods()
    killed.start(arguments, cores=2, STORAGE_EMULATOR_HOST=proxy.url)
    assert proxy.held.wait(100), killed.path(0, "err").read_text()
    os.killpg(killed.pid(0), signal.SIGKILL)
    assert killed.wait()[0].exit_code == -signal.SIGKILL
    there = objects.list_names(place)
    assert there == ["checkpoint-000001.json", "checkpoint-000001.pt", *["checkpoint-000002.pt"] * left_behind]

    [resumed] = pods().run(arguments, cores=2)
    assert resumed.exit_code == 0, resumed
    passed_over = f"Passed over checkpoint {place}/checkpoint-000002: it was never finished"
    assert resumed.lines.count(passed_over) == left_behind
    assert resumed.lines.count(f"Resumed from {place}/checkpoint-000001.pt at epoch 1 after step 2") == 1
    assert sorted(steps(resumed.lines)) == sorted([(1, 2), (1, 3), (1, 4)] * 2)
    assert f"checkpoint-00000{3 if left_behind else 2}.json" in objects.list_names(place)
