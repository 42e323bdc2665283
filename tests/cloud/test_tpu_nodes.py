"""TPU Nodes: created and deleted by v1 of the API, listed by v2 as slices that have endpoints and no workers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloud.conftest import Cloud, created, creations, refused
from tests.localpod import refusals
from tests.localpod.api_clients import named
from tui.errors import CloudError, NoSuchResourceError, UsageError

pytestmark = pytest.mark.timing

NODE = {"architecture": "node", "kind": "v3-32", "runtime_version": "pytorch-1.13"}


async def test_a_tpu_node_is_created_and_is_a_slice_without_workers(cloud: Cloud) -> None:
    steps = await created(
        cloud, **NODE, network="net", cidr_range="10.9.0.0/28", labels={"team": "vision"}, preemptible=True
    )

    assert steps[0].text == "requested pod: v3-32 TPU Node with pytorch-1.13 in local-a, preemptible"
    assert steps[-1].text == "pod is READY"
    assert steps[0].request == {
        "parent": "projects/local/locations/local-a",
        "nodeId": "pod",
        "node": {
            "acceleratorType": "v3-32",
            "tensorflowVersion": "pytorch-1.13",
            "network": "net",
            "cidrBlock": "10.9.0.0/28",
            "schedulingConfig": {"preemptible": True},
            "labels": {"team": "vision", "created-by": "tpu-tui"},
        },
    }
    (found,) = (await cloud.api.slices()).slices
    assert (found.name, found.state, found.health, found.api_version) == ("pod", "READY", "HEALTHY", "V1")
    assert (found.accelerator_type, found.runtime_version, found.cores) == ("v3-32", "pytorch-1.13", 32)
    assert (found.network or "").endswith("/networks/net")
    assert found.workers == ()
    assert found.node_endpoints == tuple(f"10.9.0.{2 + index}:8470" for index in range(4))
    assert cloud.hosts.running() == []
    resource = await cloud.api.describe(found)
    assert (resource["tensorflowVersion"], resource["apiVersion"]) == ("pytorch-1.13", "V1")
    assert await cloud.api.host_keys(found) == found


async def test_a_dry_run_sends_nothing_and_knows_what_the_zone_offers_for_tpu_nodes(cloud: Cloud) -> None:
    (step,) = await created(cloud, **NODE, dry_run=True)
    assert step.text == "would request pod: v3-32 TPU Node with pytorch-1.13 in local-a"

    error = await refused(cloud, **{**NODE, "runtime_version": "pytorch-1.12"}, dry_run=True)
    assert error.why == "there is no runtime version pytorch-1.12 in local-a"
    assert "pytorch-1.13" in error.remedy
    assert creations(cloud) == []


async def test_googles_refusal_of_new_tpu_nodes_is_shown_with_what_takes_their_place(cloud: Cloud) -> None:
    cloud.service.faults.refusals["CreateNode"] = [refusals.tpu_node_denied()]

    error = await refused(cloud, **NODE)

    assert isinstance(error, CloudError)
    assert error.why.startswith("Your request to provision TPU Node has been denied. Please migrate to TPU VM")
    assert "tpu-tui slices create pod --zone local-a --type v3-32 --version RUNTIME;" in error.remedy
    assert "tpu-tui groups create" in error.remedy


async def test_a_creation_whose_answer_is_lost_makes_one_node(cloud: Cloud) -> None:
    cloud.service.faults.lost_answers["CreateNode"] = 1

    assert (await created(cloud, **NODE))[-1].text == "pod is READY"
    assert creations(cloud) == ["pod"]


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "answer lost"])
async def test_a_tpu_node_is_deleted(cloud: Cloud, is_lost: bool) -> None:
    await created(cloud, **NODE)
    (preview,) = [line async for line in cloud.api.lifecycle.delete("local-a", "pod", dry_run=True)]
    assert preview == "would delete TPU Node pod in local-a, now READY"

    cloud.service.faults.lost_answers["DeleteNode"] = int(is_lost)
    lines = [line async for line in cloud.api.lifecycle.delete("local-a", "pod")]

    assert (lines[0], lines[-1]) == ("requested the deletion of pod", "pod is deleted")
    verbs = {(one.metadata.verb, one.metadata.api_version) for one in cloud.service._operations._entries.values()}
    assert verbs == {("create", "v1"), ("delete", "v1")}
    with pytest.raises(NoSuchResourceError):
        [line async for line in cloud.api.lifecycle.delete("local-a", "pod")]


async def test_one_of_a_single_host_is_stopped_and_started_and_a_larger_one_is_not(cloud: Cloud) -> None:
    await created(cloud, **{**NODE, "kind": "v3-8"})
    assert [line async for line in cloud.api.lifecycle.stop("local-a", "pod")][-1] == "pod is STOPPED"
    assert [line async for line in cloud.api.lifecycle.start("local-a", "pod")][-1] == "pod is READY"

    await created(cloud, name="large", **NODE)
    with pytest.raises(UsageError) as caught:
        [line async for line in cloud.api.lifecycle.stop("local-a", "large")]
    assert caught.value.why == "Cloud TPU stops and starts slices of one worker only, and it has 4"
    again = "tpu-tui slices create large --zone local-a --type v3-32 --version pytorch-1.13 --architecture node"
    assert again in caught.value.remedy


@pytest.mark.parametrize("taken", [{"kind": "v2-8"}, {"kind": "v3-32", **NODE}], ids=["TPU VM", "TPU Node"])
async def test_a_name_that_a_node_of_either_kind_has_is_refused(cloud: Cloud, taken: dict[str, Any]) -> None:
    await created(cloud, **taken)

    error = await refused(cloud, **NODE)

    assert error.why == "a slice pod exists already, and is READY"
    assert named("pod").endswith(creations(cloud)[0])
