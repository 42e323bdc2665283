"""Contract tests of the undocumented parts of multiprocessing that the trainer uses."""

from __future__ import annotations

import multiprocessing
import sys
from importlib.util import find_spec
from multiprocessing import forkserver, spawn

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from trainer.data._compat_multiprocessing import share_forkserver_with_children


def test_a_new_process_asks_the_one_fork_server_object_whether_it_runs() -> None:
    assert "ensure_running" in forkserver.ForkServer.connect_to_new_process.__code__.co_names
    assert isinstance(forkserver._forkserver, forkserver.ForkServer)


def _use_forkserver() -> None:
    before = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    forkserver._forkserver.ensure_running()
    sys.exit(forkserver._forkserver._forkserver_pid != before)  # type: ignore[attr-defined]


def test_a_forked_child_does_not_start_another_fork_server() -> None:
    share_forkserver_with_children()
    child = multiprocessing.get_context("fork").Process(target=_use_forkserver)
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("command", ["trainer.train", "trainer.shards", "trainer.bench_input"])
def test_a_child_process_does_not_run_the_main_module_of_a_command_again(command: str) -> None:
    main = f"{command}.__main__"
    assert find_spec(main)
    before = [sys.modules.get(name) for name in ("__main__", "__mp_main__")]
    spawn._fixup_main_from_name(main)  # type: ignore[attr-defined]
    assert [sys.modules.get(name) for name in ("__main__", "__mp_main__")] == before
