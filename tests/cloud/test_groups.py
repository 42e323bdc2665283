"""Instance groups created, resized and waited for on a local pod's Compute Engine API with stand-ins for machines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.api_clients import serving
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService
from tui.cloud.compute.groups.group_creation import GroupCreation
from tui.cloud.compute.groups.group_resizing import GroupResizing
from tui.errors import CloudError, UsageError
from tui.pod.groups.group_request import GroupRequest
from tui.settings import Settings

BASE: dict[str, Any] = {"image_family": "debian-12", "image_project": "debian-cloud"}
PLACE = "projects/local/zones/local-a"
PYTORCH = GroupRequest("pytorch", "local-a", size=2, machine_type="n1-standard-16", **BASE, tpu_node="tpu")
FLEX = GroupRequest(
    "flex", "local-a", size=2, machine_type="ct6e-standard-4t", **BASE, flex_start=True, run_duration_s=600
)


@dataclass
class Served:
    """A pod's Compute Engine API, and what creates groups there."""

    compute: FaultyComputeService
    settings: Settings

    async def create(self, request: GroupRequest, **options: Any) -> list[str]:
        creation = GroupCreation(self.settings)
        return [step.text async for step in creation.create(await creation.prepare(request), **options)]

    async def resize(self, name: str, size: int) -> list[str]:
        return [line async for line in GroupResizing(self.settings, "local-a", name).resize(size)]

    def running(self, name: str) -> int:
        group = self.compute.groups.get(f"{PLACE}/instanceGroupManagers/{name}")
        return sum(vm is not None for vm in (self.compute.groups.vm(group, one) for one in group.members.values()))


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr("tui.cloud.state_reports._FIRST_POLL_S", 0.02)
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    compute.faults.operation_seconds = 0.02
    async with serving(rest_routes=compute.routes(), store=compute.store) as (service, _):
        endpoints = {"compute": f"http://127.0.0.1:{service.rest_port}"}
        settings = Settings(home=tmp_path, project="local", endpoints=endpoints, token=service.token)
        yield Served(compute, settings)
    await compute.close()


async def test_what_is_missing_of_a_group_is_created_in_order_and_a_repetition_uses_it(served: Served) -> None:
    steps = await served.create(PYTORCH)

    assert [step for step in steps if "created" in step] == [
        "template pytorch is created",
        "group pytorch is created",
    ]
    assert steps[-1] == "all 2 VMs of pytorch run"
    assert served.running("pytorch") == 2
    again = await served.create(PYTORCH)
    assert again == ["template pytorch exists already", "group pytorch exists already", "all 2 VMs of pytorch run"]


async def test_a_group_made_otherwise_is_not_taken_for_the_requested_one(served: Served) -> None:
    await served.create(PYTORCH)

    with pytest.raises(UsageError, match="template pytorch exists already with other settings") as caught:
        await served.create(replace(PYTORCH, machine_type="n1-standard-8"))
    assert "tpu-tui groups delete local-a/pytorch" in caught.value.remedy
    with pytest.raises(UsageError, match="group pytorch exists already with other settings") as caught:
        await served.create(replace(PYTORCH, size=3))
    assert "tpu-tui groups resize local-a/pytorch --size N" in caught.value.remedy


async def test_a_lost_answer_creates_nothing_twice(served: Served) -> None:
    for collection in ("instanceTemplates", "instanceGroupManagers"):
        served.compute.faults.lost_answers[f"compute.{collection}.create"] = 1

    assert (await served.create(PYTORCH))[-1] == "all 2 VMs of pytorch run"
    assert served.running("pytorch") == 2


async def test_a_vm_that_cannot_be_created_is_named_with_the_reason(served: Served) -> None:
    served.compute.faults.worker_capacity = 1

    with pytest.raises(CloudError, match=r"VM pytorch-\w+ of group pytorch cannot be created: .*resources") as caught:
        await served.create(PYTORCH)
    assert "tpu-tui groups delete local-a/pytorch" in caught.value.remedy


async def test_the_disk_of_a_stopped_vm_becomes_the_image(served: Served) -> None:
    disk = {"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "10"}}
    machine = {"name": "prepared", "machineType": "zones/local-a/machineTypes/n1-standard-16", "disks": [disk]}
    await served.compute.instances.boot(served.compute.instances.insert("local-a", machine, {}))
    request = replace(PYTORCH, image_project="", image_from="prepared", image_family="torch-xla")

    steps = await served.create(request)

    assert steps[:4] == [
        "requested the stop of VM prepared",
        "VM prepared is stopped",
        "requested image pytorch",
        "image pytorch is created",
    ]
    image = served.compute.store.get("projects/local/global/images/pytorch")
    assert (image["family"], image["labels"]) == ("torch-xla", {"created-by": "tpu-tui"})
    with pytest.raises(UsageError, match="there is no VM nothing in local-a"):
        await served.create(replace(request, image_from="nothing"))


async def test_a_slice_has_a_policy_and_is_created_at_once_and_grows_only_from_nothing(served: Served) -> None:
    request = replace(PYTORCH, machine_type="ct6e-standard-4t", topology="4x4", size=None, tpu_node="")

    steps = await served.create(request)

    assert steps[1] == "policy pytorch is created"
    assert steps[-1] == "all 4 VMs of pytorch run"
    with pytest.raises(UsageError, match="its 4 VMs are one slice, which is created all at once"):
        await served.resize("pytorch", 8)
    assert (await served.resize("pytorch", 0))[-1] == "all 0 VMs of pytorch run"


async def test_flex_start_waits_for_capacity_and_gives_up_when_its_time_is_over(served: Served) -> None:
    assert (await served.create(FLEX))[-2:] == ["resize request flex is created", "all 2 VMs of flex run"]
    served.compute.faults.worker_capacity = 2

    with pytest.raises(CloudError, match="there was no capacity within 0 s"):
        await served.create(replace(FLEX, name="late", valid_for_s=0))
    group = served.compute.groups.get(f"{PLACE}/instanceGroupManagers/late")
    assert group.target == 0


async def test_a_group_is_resized_and_waited_for(served: Served) -> None:
    await served.create(PYTORCH)

    assert (await served.resize("pytorch", 3))[-1] == "all 3 VMs of pytorch run"
    assert (await served.resize("pytorch", 1))[-1] == "the VM of pytorch runs"
    assert served.running("pytorch") == 1
    with pytest.raises(UsageError, match="there is no group nothing in local-a"):
        await served.resize("nothing", 1)


async def test_an_operation_that_fails_is_a_sentence_with_a_remedy(served: Served) -> None:
    with pytest.raises(UsageError, match="there is no template nothing"):
        await served.create(GroupRequest("pytorch", "local-a", size=1, template="nothing"))
    served.compute.faults.denied.add("compute.instanceTemplates.create")
    with pytest.raises(CloudError, match=r"compute\.instanceTemplates\.create") as caught:
        await served.create(PYTORCH)
    assert "roles/compute.instanceAdmin.v1" in caught.value.remedy


async def test_a_dry_run_says_what_is_missing_and_changes_nothing(served: Served) -> None:
    assert await served.create(PYTORCH, dry_run=True) == [
        "would create template pytorch",
        "would create group pytorch",
    ]
    assert not served.compute.groups.all()
