"""Tests of the benchmarks' object store: it ends with the process that started it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer.conftest import DEADLINE
from tests.waiting import wait_until
from trainer.bench_input import object_store

pytestmark = pytest.mark.timing

OWNER = """
import sys, time
from pathlib import Path
from trainer.bench_input import object_store

with object_store.running(Path(sys.argv[1]), "trainer-test") as url:
    print(url, flush=True)
    time.sleep(600)
"""
TIMEOUT_S = 60


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process when its parent ends")
@pytest.mark.skipif(object_store.binary() is None, reason="no fake-gcs-server for this machine")
def test_the_object_store_ends_with_the_process_that_started_it_even_if_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as owner:
        assert owner.stdout is not None
        host, port = owner.stdout.readline().strip().removeprefix("http://").split(":")
        assert answers(host, int(port))
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not answers(host, int(port)), seconds=DEADLINE)


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True
