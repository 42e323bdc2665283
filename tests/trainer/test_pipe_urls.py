"""Tests of shards that commands print: the commands end with the process that reads them, and failures name them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.timing

pytest.importorskip("torch", reason="torch is not installed")

from tests.waiting import is_running, wait_until
from trainer.data.shard_reader import ShardFile, read_shards
from trainer.errors import TrainerError
from trainer.storage import pipe_urls
from trainer.storage.pipe_urls import open_pipe

ROOT = Path(__file__).parents[2]
DEADLINE = 30
READER = """
import sys
from trainer.storage.pipe_urls import open_pipe

with open_pipe(sys.argv[1]) as stream:
    print(stream.readline().decode(), end="", flush=True)
    stream.read()
"""


def test_a_commands_output_is_read_and_its_failure_reported() -> None:
    with open_pipe("pipe:printf 'a\\nb'; cat") as stream:  # cat would wait for a standard input
        assert stream.read() == b"a\nb"
    failed = "The command of pipe:echo x; exit 7 failed: exit code 7"
    with pytest.raises(TrainerError, match=failed), open_pipe("pipe:echo x; exit 7") as stream:
        stream.read()
    with open_pipe("pipe:yes") as stream:  # a reader that stops early is no failure of the command
        assert stream.read(4) == b"y\ny\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_and_what_it_started_end_with_a_reader_that_is_killed(number: signal.Signals) -> None:
    command = "pipe:sleep 1000 & echo $! $$; sleep 1000"
    reader = subprocess.Popen([sys.executable, "-c", READER, command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with reader:
        assert reader.stdout is not None
        pids = [int(pid) for pid in reader.stdout.readline().split()]
        assert all(map(is_running, pids))
        reader.send_signal(number)
    wait_until(lambda: not any(map(is_running, pids)))


def test_a_hanging_command_can_be_killed_which_ends_its_reader(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A killed command is not reported as a bad shard, and no further command is started."""
    begun = tmp_path / "begun"
    shards = [ShardFile(f"pipe:echo {number} >> {begun}; exec sleep 1000") for number in range(2)]
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for samples in read_shards(shards):
                list(samples)
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=read)
    waiting.start()
    wait_until(begun.exists)
    pipe_urls.kill_all()
    waiting.join(DEADLINE)
    assert [type(error) for error in errors] == [pipe_urls.PipeKilledError]
    assert begun.read_text() == "0\n"
