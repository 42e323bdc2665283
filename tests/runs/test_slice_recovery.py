"""A run on recreated machines: they have new addresses and host keys, and the same user name."""

from __future__ import annotations

from typing import Any

from tests.run_records import make_run
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.runs.health.slice_recovery import _find_ready_slice


class FoundSlice:
    """A slice as the API reports it, without the user names, which the launch looked up."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_

    async def find(self) -> Slice:
        return self.slice

    async def with_host_keys(self, slice_: Slice) -> Slice:
        return slice_


async def renewed(*workers: Worker) -> Any:
    old = [Worker(index, external_ip=f"10.0.0.{index}", user="ada_example_com") for index in range(2)]
    run = make_run("id", "pod", ["true"], old, zone="z-a")
    found = Slice("pod", zone="z-a", state="READY", workers=workers, created="2026-01-31T18:00:00Z")
    return await _find_ready_slice(run, FoundSlice(found))  # type: ignore[arg-type]


async def test_new_machines_keep_the_user_name_of_os_login() -> None:
    run = await renewed(*(Worker(index, external_ip=f"10.9.9.{index}") for index in range(2)))

    assert [(one.external_ip, one.user) for one in run.workers] == [
        ("10.9.9.0", "ada_example_com"),
        ("10.9.9.1", "ada_example_com"),
    ]
    assert run.slice_created == "2026-01-31T18:00:00Z"


async def test_a_slice_of_another_size_is_not_used_for_the_run() -> None:
    assert await renewed(Worker(0, external_ip="10.9.9.0")) is None
