"""The real gcloud on a pod's Compute Engine API: the Spanish document's commands, TPU7x, flex-start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.gcloud import Gcloud, with_gcloud
from tests.pods import running_pod
from tests.waiting import until
from tui.localpod.api.compute.groups import Group
from tui.localpod.api.compute.service import ComputeService
from tui.localpod.pod import LocalPod

pytestmark = [pytest.mark.gcloud, *with_gcloud]

COMPUTE = ("compute",)
GROUPS = ("compute", "instance-groups")
MANAGED = (*GROUPS, "managed")
TEMPLATES = ("compute", "instance-templates")
ZONE = "--zone=local-a"


@dataclass
class GcloudPod:
    """A pod and gcloud on it."""

    pod: LocalPod
    run: Gcloud

    @property
    def compute(self) -> ComputeService:
        return self.pod.compute

    @property
    def group(self) -> Group:
        (group,) = self.compute.groups.all()
        return group

    async def ok(self, *words: str) -> str:
        """Run a command that has to work; its output."""
        code, out, errors = await self.run(*words)
        assert code == 0, errors
        return out

    async def json(self, *words: str) -> Any:
        return await self.run.json(*words)

    async def refused(self, why: str, *words: str) -> None:
        """Run a command that has to fail with this text."""
        code, _, errors = await self.run(*words)
        assert (code, why in errors) == (1, True), errors


@pytest.fixture
async def gcloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GcloudPod]:
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path))
    async with running_pod(tmp_path) as pod:
        pod.compute.conditions.operation_seconds = 0.05
        yield GcloudPod(pod, Gcloud(tmp_path, pod.service.rest_port, pod.token))


async def test_the_documents_commands_from_a_prepared_machine_to_the_cleaned_up_project(gcloud: GcloudPod) -> None:
    """In the document's order, without the TPU Node and the training, which are no part of Compute Engine."""
    for name in ("CLOUDSDK_CORE_PROJECT", "CLOUDSDK_COMPUTE_ZONE"):
        del gcloud.run.environment[name]
    await gcloud.ok("config", "set", "project", "local")
    await gcloud.ok("config", "set", "compute/zone", "local-a")
    await gcloud.ok(*COMPUTE, "instances", "create", "vm-name", "other", "--machine-type=n1-standard-16")
    image = (*COMPUTE, "images", "create", "image-name", "--source-disk", "vm-name", "--source-disk-zone", "local-a")
    image += ("--family=torch-xla", "--storage-location", "local")
    await gcloud.refused("is already being used by", *image)

    await gcloud.ok(*COMPUTE, "instances", "stop", "vm-name")
    (made,) = await gcloud.json(*image)
    assert (made["family"], made["storageLocations"]) == ("torch-xla", ["local"])
    scope = "https://www.googleapis.com/auth/cloud-platform"
    pattern = ("--machine-type", "n1-standard-16", "--image-project=local", "--image=image-name")
    (template,) = await gcloud.json(*TEMPLATES, "create", "template-name", *pattern, f"--scopes={scope}")
    assert template["properties"]["serviceAccounts"][0]["scopes"] == [scope]
    await gcloud.ok(*MANAGED, "create", "crew", "--size", "4", "--template", "template-name", "--zone", "local-a")
    await until(lambda: gcloud.group.is_stable, "the group is stable")

    rows = await gcloud.json(*GROUPS, "list-instances", "crew")
    names = [row["instance"].rpartition("/")[2] for row in rows]
    assert (sorted(names), {row["status"] for row in rows}) == (sorted(gcloud.group.members), {"RUNNING"})
    first, second = (gcloud.compute.vm(name).worker for name in names[:2])
    assert first is not None
    assert second is not None
    ssh = (*COMPUTE, "ssh", names[0], ZONE, f"--ssh-flag=-p{first.port}")
    assert (await gcloud.ok(*ssh, "--command=echo $HOSTNAME")).splitlines()[-1] == names[0]
    known = (gcloud.pod.home / ".ssh" / "google_compute_known_hosts").read_text()
    assert first.host_key_public.split()[1] in known, "the host key is that of the guest attributes"
    scan = await gcloud.ok(*ssh, f"--command=nmap -Pn -p 8477 {second.address}")
    assert "8477/tcp closed" in scan

    delete_template = (*TEMPLATES, "delete", "template-name")
    await gcloud.refused("is already being used by", *delete_template)
    await gcloud.ok(*MANAGED, "delete", "crew")
    await gcloud.ok(*delete_template)
    await gcloud.ok(*COMPUTE, "images", "delete", "image-name")
    await gcloud.ok(*COMPUTE, "instances", "delete", "vm-name", "other")
    left = [gcloud.compute.store.places(kind) for kind in ("instances", "disks", "images", "instanceTemplates")]
    assert (left, gcloud.pod.machines.slices) == ([[], [], [], []], ("local",))


async def test_a_slice_of_tpu7x_is_a_group_in_bulk_mode_with_a_workload_policy(gcloud: GcloudPod) -> None:
    policies = (*COMPUTE, "resource-policies")
    shape = ("--type=HIGH_THROUGHPUT", "--accelerator-topology=2x2x2", "--region=local")
    await gcloud.ok(*policies, "create", "workload-policy", "mesh", *shape)
    spot = ("--provisioning-model=SPOT", "--instance-termination-action=STOP")
    await gcloud.ok(*TEMPLATES, "create", "t7", "--machine-type=tpu7x-standard-4t", *spot)
    policy = "--workload-policy=projects/local/regions/local/resourcePolicies/mesh"
    bulk = ("--size=2", "--template=t7", ZONE, "--target-size-policy-mode=bulk", policy)
    await gcloud.ok("alpha", *MANAGED, "create", "crew", *bulk)
    await gcloud.ok(*MANAGED, "wait-until", "crew", "--stable", ZONE)
    first, second = gcloud.group.members
    assert "ACCELERATOR_TYPE: 'tpu7x-16'" in gcloud.compute.vm(first).metadata["tpu-env"]
    listed = await gcloud.json(*COMPUTE, "instances", "list", f"--filter=name=({first},{second})")
    assert sorted(row["name"] for row in listed) == sorted([first, second])

    query = (*COMPUTE, "instances", "get-guest-attributes", first, "--query-path=hostkeys/")
    (before,) = await gcloud.json(*query)
    await gcloud.ok(*COMPUTE, "instances", "simulate-maintenance-event", first)
    await gcloud.ok(*MANAGED, "wait-until", "crew", "--stable", ZONE)
    (after,) = await gcloud.json(*query)
    assert before["value"] != after["value"]
    await gcloud.ok(*MANAGED, "recreate-instances", "crew", f"--instances={first}", ZONE)
    await gcloud.ok(*MANAGED, "wait-until", "crew", "--stable", ZONE)
    (again,) = await gcloud.json(*query)
    assert again["value"] != after["value"]

    rows = await gcloud.json(*MANAGED, "list-instances", "crew")
    assert {(row["instanceStatus"], row["currentAction"]) for row in rows} == {("RUNNING", "NONE")}
    await gcloud.refused("is already being used by", *policies, "delete", "mesh", "--region=local")
    await gcloud.ok(*MANAGED, "resize", "crew", "--size=0", ZONE)
    await gcloud.ok(*MANAGED, "delete", "crew")
    await gcloud.ok(*policies, "delete", "mesh", "--region=local")


async def test_flex_start_machines_come_by_a_resize_request(gcloud: GcloudPod) -> None:
    limits = ("--max-run-duration=3600s", "--instance-termination-action=DELETE", "--reservation-affinity=none")
    kind = ("--machine-type=ct6e-standard-4t", "--provisioning-model=FLEX_START", *limits)
    await gcloud.ok("alpha", *TEMPLATES, "create", "flexible", *kind)
    manual = ("--size=0", "--template=flexible", ZONE, "--default-action-on-vm-failure=do-nothing")
    await gcloud.ok(*MANAGED, "create", "flex", *manual)
    requests = (*MANAGED, "resize-requests")
    wish = ("--resize-request=wish", "--resize-by=2", "--requested-run-duration=3600s", ZONE)
    await gcloud.ok(*requests, "create", "flex", *wish)
    await until(lambda: gcloud.group.is_stable and len(gcloud.group.members) == 2, "the request is fulfilled")
    (row,) = await gcloud.json(*requests, "list", "flex", ZONE)
    assert (row["name"], row["state"], row["resizeBy"]) == ("wish", "SUCCEEDED", 2)
    described = await gcloud.json(*requests, "describe", "flex", "--resize-request=wish", ZONE)
    assert described["requestedRunDuration"]["seconds"] == "3600"
    await gcloud.ok(*requests, "delete", "flex", "--resize-requests=wish", ZONE)
    await gcloud.ok(*MANAGED, "delete", "flex")
