"""Tests of workers that fail before they start: an error that all workers have is printed by worker 0 only."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainer.distributed import failures

pytestmark = pytest.mark.timing

HOST = "127.0.91.6"


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an address at which nothing listens, and let workers wait there for up to 60 s."""
    monkeypatch.setattr(failures, "MEETING_TIMEOUT_S", 60.0)
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return f"{HOST}:{probe.getsockname()[1]}"


def print_errors(coordinator: str, sentences: list[str]) -> None:
    """Have each worker print its sentence at the same time."""

    def print_own(worker: int) -> None:
        place = {"TPU_TUI_WORKER": str(worker), "TPU_TUI_WORKERS": str(len(sentences))}
        failures.print_once(sentences[worker], {**place, "TPU_TUI_COORDINATOR": coordinator})

    with ThreadPoolExecutor() as pool:
        list(pool.map(print_own, reversed(range(len(sentences)))))


def test_an_error_of_all_workers_is_printed_once(coordinator: str, capfd: pytest.CaptureFixture[str]) -> None:
    print_errors(coordinator, ["There is no TPU."] * 3)
    assert capfd.readouterr().err == "There is no TPU.\n"


def test_a_different_error_of_another_worker_is_printed_too(
    coordinator: str, capfd: pytest.CaptureFixture[str]
) -> None:
    print_errors(coordinator, ["There is no TPU.", "TPU_TUI_WORKERS=two.", "There is no TPU."])
    assert sorted(capfd.readouterr().err.splitlines()) == ["TPU_TUI_WORKERS=two.", "There is no TPU."]


def test_a_worker_prints_its_error_when_worker_0_has_started(capfd: pytest.CaptureFixture[str]) -> None:
    """Worker 0 listens with a store, which sends nothing first; a server that greets is not worker 0."""
    TCPStore = pytest.importorskip("torch.distributed").TCPStore
    store = TCPStore(HOST, 0, None, is_master=True, wait_for_workers=False)
    with socket.create_server((HOST, 0)) as greeting, ThreadPoolExecutor() as pool:

        def greet() -> None:
            caller, _ = greeting.accept()
            with caller:
                caller.sendall(b"There is no TPU.")

        pool.submit(greet)
        for port in (store.port, greeting.getsockname()[1]):
            place = {"TPU_TUI_WORKER": "1", "TPU_TUI_WORKERS": "2", "TPU_TUI_COORDINATOR": f"{HOST}:{port}"}
            failures.print_once("There is no TPU.", place)
            assert capfd.readouterr().err == "There is no TPU.\n"


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"TPU_TUI_WORKER": "1", "TPU_TUI_WORKERS": "2"},
        {"TPU_TUI_WORKER": "one"},
        {"TPU_TUI_COORDINATOR": "x:y"},
        {"TPU_TUI_WORKERS": "2", "TPU_TUI_COORDINATOR": "127.0.0.1:99999"},
    ],
)
def test_a_worker_that_cannot_find_the_others_prints_its_error(
    place: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    failures.print_once("There is no TPU.", place)
    assert capfd.readouterr().err == "There is no TPU.\n"


def test_a_worker_does_not_wait_for_a_worker_0_that_does_not_start(coordinator: str) -> None:
    from trainer.distributed.rendezvous import _await_server
    from trainer.errors import ReportedElsewhereError

    host, _, port = coordinator.partition(":")
    with ThreadPoolExecutor() as pool:
        place = {"TPU_TUI_WORKERS": "2", "TPU_TUI_COORDINATOR": coordinator}
        pool.submit(failures.print_once, "There is no TPU.", place)
        with pytest.raises(ReportedElsewhereError):
            _await_server((host, int(port)), time.monotonic() + 60, lambda: False)
