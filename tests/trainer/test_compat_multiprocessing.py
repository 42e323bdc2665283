"""The private parts of multiprocessing that the trainer relies on are there and mean what it takes them for."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import forkserver

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
