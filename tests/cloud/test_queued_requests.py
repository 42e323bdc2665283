"""Tests of queued resources: they wait, fail, are reset, deleted and listed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud import tpu_v2

from tests.cloud.conftest import Cloud, a_request, created, node, refused
from tests.localpod.api_clients import PLACE, until
from tests.localpod.faults import FOREVER
from tui.errors import CloudError, UsageError
from tui.pod.creation.slice_request import QueueRequest

pytestmark = pytest.mark.timing


async def test_a_queued_request_waits_for_capacity_and_makes_its_slices(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    seen = []
    queue = QueueRequest(nodes=2, node_prefix="crew", valid_for_s=3600)
    async for step in cloud.api.create(a_request("wish", spot=True, labels={"team": "vision"}, queue=queue)):
        seen.append(step.text)
        if step.text.startswith("WAITING_FOR_RESOURCES, "):
            (row,) = (await cloud.api.queued_requests()).requests
            assert (row.state, row.reason) == ("WAITING_FOR_RESOURCES", "local-a has no capacity for it yet")
            cloud.service.faults.worker_capacity = None

    assert seen[0] == "requested wish: 2 × v2-8 with tpu-ubuntu2204-base in local-a, spot"
    assert seen[-2:] == ["crew-0 is READY", "crew-1 is READY"]
    (row,) = (await cloud.api.queued_requests()).requests
    assert (row.state, row.reason, row.nodes, row.spot) == ("ACTIVE", None, ("crew-0", "crew-1"), True)
    assert (row.accelerator_type, row.labels) == ("v2-8", {"team": "vision", "created-by": "tpu-tui"})
    assert row.created is not None
    assert row.valid_until is not None
    begun, until_ = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (row.created, row.valid_until))
    assert until_ - begun == timedelta(hours=1)
    assert (await node(cloud, "crew-0")).scheduling_config.spot


State: Any = tpu_v2.QueuedResourceState.State
REASONS = {
    "ACCEPTED": ": it waits for its turn",
    "WAITING_FOR_RESOURCES": ": local-a has no capacity for it yet",
    "SUSPENDING": ": its slices were preempted, or their time was over",
}


def answer_with(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, *states: Any) -> None:
    """Let the queued resource appear in these states, one for each time it is read, before its own state."""
    waiting = cloud.api._creation._wait
    read, left = waiting.queued_resource, list(states)

    async def scripted(path: str) -> tpu_v2.QueuedResource | None:
        queued = await read(path)
        if queued is not None and left:
            queued.state = tpu_v2.QueuedResourceState(state=left.pop(0))
        return queued

    monkeypatch.setattr(waiting, "queued_resource", scripted)


@pytest.mark.parametrize("state", [one.name for one in State if one.name not in ("ACTIVE", "FAILED", "SUSPENDED")])
async def test_a_state_of_the_queue_is_reported_once_with_reason_and_age_and_awaited(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    answer_with(cloud, monkeypatch, State[state], State[state], State[state])

    lines = [step.text for step in await created(cloud, queue=QueueRequest())]

    expected = rf"{state}, \d+ s{REASONS.get(state, '')}"
    assert len([line for line in lines if re.fullmatch(expected, line)]) == (state != "STATE_UNSPECIFIED")
    assert lines[-1] == "pod is READY"


async def test_a_suspended_request_ends_the_wait_with_its_reason_and_the_next_step(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(cloud, monkeypatch, State.PROVISIONING, State.SUSPENDING, State.SUSPENDED)

    error = await refused(cloud, queue=QueueRequest())

    assert error.why == "its queued resource is SUSPENDED: its slices were preempted, or their time was over"
    assert error.remedy == (
        "tpu-tui slices reset local-a/pod puts it back into the queue, "
        "tpu-tui slices delete --queued local-a/pod removes it"
    )


async def test_an_outage_does_not_end_the_wait_for_capacity(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    short_patience, lines = cloud.connect(patience=2.0), []

    async for step in short_patience.create(a_request(queue=QueueRequest())):
        lines.append(step.text)
        if step.text.startswith("WAITING"):
            cloud.service.faults.unavailable["local-a"] = FOREVER
        elif step.text.startswith("no answer"):
            cloud.service.faults.unavailable.clear()
            cloud.service.faults.worker_capacity = None

    assert any(line.startswith("no answer from the API, ") and "is down or cannot" in line for line in lines)
    assert lines[-1] == "pod is READY"


async def test_a_detached_queued_request_ends_with_its_first_state(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0

    steps = await created(cloud, queue=QueueRequest(), waits=False)

    assert steps[-1].text in ("queued resource pod is ACCEPTED", "queued resource pod is WAITING_FOR_RESOURCES")


async def test_a_request_that_leaves_the_queue_without_capacity_fails_and_stays_as_a_leftover(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    until_ = datetime.now(timezone.utc) + timedelta(seconds=0.5)

    error = await refused(cloud, queue=QueueRequest(valid_until=until_))

    assert error.why == "local-a has no v2-8 left now"
    assert error.remedy.endswith(
        "; the queued resource stays: tpu-tui slices reset local-a/pod puts it back into the queue, "
        "tpu-tui slices delete --queued local-a/pod removes it"
    )
    (row,) = (await cloud.api.queued_requests()).requests
    assert (row.state, row.is_leftover) == ("FAILED", True)
    assert row.reason is not None
    assert row.reason.startswith('There is no more capacity in the zone "local-a"')
    assert "EID" not in row.reason


async def test_a_reserved_request_names_the_reservations_of_the_project(cloud: Cloud) -> None:
    await created(cloud, reserved=True, queue=QueueRequest(node_id="granted"))

    client = await cloud.api._api.open()
    queued = await client.get_queued_resource(name=f"{PLACE}/queuedResources/pod")
    assert queued.reservation_name == f"{PLACE}/reservations/-"
    assert (await node(cloud, "granted")).scheduling_config.reserved


async def test_a_request_deleted_while_it_waits_ends_the_wait(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    other = cloud.connect()

    async def delete_once_waiting() -> None:
        async for step in cloud.api.create(a_request(queue=QueueRequest())):
            if step.text.startswith("WAITING"):
                _ = [line async for line in other.queue.delete("local-a", "pod")]

    with pytest.raises(CloudError, match="was deleted while it waited"):
        await delete_once_waiting()


async def test_deleting_a_request_deletes_its_slices_by_force_only_and_waits_until_all_are_gone(cloud: Cloud) -> None:
    await created(cloud, queue=QueueRequest(nodes=2))
    with pytest.raises(UsageError) as caught:
        _ = [line async for line in cloud.api.queue.delete("local-a", "pod")]
    assert (caught.value.why, caught.value.remedy) == (
        "it has slices: pod-0, pod-1",
        "add --force to delete them, too",
    )
    would = [line async for line in cloud.api.queue.delete("local-a", "pod", force=True, dry_run=True)]
    assert would == [
        "would delete queued resource pod in local-a, now ACTIVE, and pod-0, pod-1 with the disks of their workers"
    ]
    cloud.service.faults.lost_answers["DeleteQueuedResource"] = 1

    lines = [line async for line in cloud.api.queue.delete("local-a", "pod", force=True)]

    assert lines[-1] == "queued resource pod is deleted"
    assert (await cloud.api.queued_requests()).requests == ()
    assert cloud.hosts.running() == []
    verbs = [one.metadata.verb for one in cloud.service._operations._entries.values()]
    assert verbs.count("delete") == 1, "the repeated request had the same ID"


async def test_a_suspended_request_is_a_leftover_that_can_be_reset(cloud: Cloud) -> None:
    await created(cloud, queue=QueueRequest())
    cloud.hosts.kill("pod", 0)
    (row,) = (await cloud.api.queued_requests()).requests
    assert (row.state, row.is_leftover) == ("SUSPENDED", True)
    assert row.reason == "its slices were preempted, or their time was over"

    lines = [line async for line in cloud.api.queue.reset("local-a", "pod")]

    assert lines[0] == "requested the reset of queued resource pod"

    async def is_active() -> bool:
        return (await cloud.api.queued_requests()).requests[0].state == "ACTIVE"

    await until(is_active)
    assert (await cloud.api.get("pod", None)).state == "READY"


@pytest.mark.parametrize("verb", ["delete", "reset"])
async def test_a_request_that_does_not_exist_cannot_be_changed(cloud: Cloud, verb: str) -> None:
    with pytest.raises(UsageError, match="there is no such queued resource"):
        _ = [line async for line in getattr(cloud.api.queue, verb)("local-a", "ghost")]


async def test_requests_of_every_zone_are_listed_and_an_unavailable_zone_is_a_problem(cloud: Cloud) -> None:
    everywhere = cloud.connect(zones=())
    for zone in ("local-a", "local-b"):
        _ = [
            step async for step in everywhere.create(a_request("wish", zone=zone, queue=QueueRequest(node_id="one")))
        ]
    cloud.service.faults.unavailable["local-b"] = FOREVER

    listing = await everywhere.queued_requests()

    assert [row.path for row in listing.requests] == ["local-a/wish"]
    assert [problem.what for problem in listing.problems] == ["slices in local-b cannot be listed"]
