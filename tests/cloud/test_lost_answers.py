"""Tests of lost answers and busy services: a request is carried out once, and its end is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.cloud import tpu_v2

from tests.cloud.conftest import Cloud, created, creations, refused
from tests.localpod.faults import FOREVER
from tui.errors import CloudError, UsageError
from tui.localpod.api import rpc_errors
from tui.pod.creation.slice_request import QueueRequest

pytestmark = pytest.mark.timing


def verbs(cloud: Cloud) -> list[str]:
    """Return the verbs of the operations that the service has begun, in order."""
    return [one.metadata.verb for one in cloud.service._operations._entries.values()]


async def last_of(lines: AsyncIterator[str]) -> str:
    return [line async for line in lines][-1]


async def without_answer(cloud: Cloud, method: str, change: AsyncIterator[str], *, held: bool) -> list[str]:
    """Return the lines of a change whose answer is lost; `held` keeps its operation open until the change resumes."""
    faults = cloud.service.faults
    faults.lost_answers[method] = 1
    if held:
        faults.hold_operations()
    lines = []
    async for line in change:
        lines.append(line)
        faults.release_operations()
    return lines


async def test_a_creation_whose_answer_is_lost_makes_one_slice_and_is_awaited(cloud: Cloud) -> None:
    cloud.service.faults.lost_answers["CreateNode"] = 1

    steps = await created(cloud)

    assert steps[-1].text == "pod is READY"
    assert creations(cloud) == ["pod"]
    operations = [name for name in cloud.service._operations._entries if name == steps[0].operation]
    assert len(operations) == 1


async def test_a_lost_creation_is_found_on_any_page_of_operations(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.localpod.api.resources.paging.MAX_PAGE_SIZE", 1)
    await created(cloud, name="earlier")
    cloud.service.faults.lost_answers["CreateNode"] = 1

    assert (await created(cloud))[-1].text == "pod is READY"


async def test_a_slice_of_another_user_never_counts_as_the_lost_one(cloud: Cloud) -> None:
    await created(cloud, kind="v2-32")
    cloud.service.faults.lost_answers["CreateNode"] = 1

    error = await refused(cloud, kind="v2-8")

    assert error.why == "a slice pod exists already, and is READY"
    assert cloud.service.faults.lost_answers["CreateNode"] == 1, "nothing was requested"


async def test_a_name_taken_by_another_user_meanwhile_is_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = cloud.service._nodes.create

    def create_for_another(place: Any, node_id: str, wanted: tpu_v2.Node) -> Any:
        other = tpu_v2.Node(accelerator_type="v2-8", runtime_version="tpu-ubuntu2204-base")
        return create(place, node_id, other if wanted.labels else wanted)

    monkeypatch.setattr(cloud.service._nodes, "create", create_for_another)
    cloud.service.faults.lost_answers["CreateNode"] = 1

    error = await refused(cloud)

    assert error.why == "a slice of that name exists already"


async def test_a_queued_creation_whose_answer_is_lost_makes_one_request(cloud: Cloud) -> None:
    cloud.service.faults.lost_answers["CreateQueuedResource"] = 2

    steps = await created(cloud, queue=QueueRequest())

    assert steps[-1].text == "pod is READY"
    assert creations(cloud) == ["pod"]


async def test_an_api_that_stays_unavailable_leaves_a_warning_that_the_slice_may_exist(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, faults = cloud.service._nodes.create, cloud.service.faults

    def create_and_go(*words: Any) -> Any:
        faults.unavailable["local-a"] = FOREVER
        return create(*words)

    monkeypatch.setattr(cloud.service._nodes, "create", create_and_go)
    faults.lost_answers["CreateNode"] = 1
    faults.retry_after_seconds = 60

    error = await refused(cloud)

    assert "tpu-tui slices shows whether pod was requested" in error.remedy
    assert creations(cloud) == ["pod"]


@pytest.mark.parametrize("held", [True, False], ids=["in progress", "done"])
async def test_a_deletion_whose_answer_is_lost_ends_as_deleted(cloud: Cloud, held: bool) -> None:
    await cloud.make("pod")
    lines = await without_answer(cloud, "DeleteNode", cloud.api.lifecycle.delete("local-a", "pod"), held=held)

    assert (lines[0], lines[-1]) == ("requested the deletion of pod", "pod is deleted")
    assert verbs(cloud) == ["create", "delete"]
    assert cloud.hosts.running() == []


async def test_a_slice_that_another_user_deletes_at_the_same_time_is_deleted(cloud: Cloud) -> None:
    await cloud.make("pod")
    first, second = (cloud.connect().lifecycle.delete("local-a", "pod") for _ in range(2))

    ends = await asyncio.gather(*(last_of(lines) for lines in (first, second)))

    assert ends == ["pod is deleted", "pod is deleted"]
    assert verbs(cloud) == ["create", "delete"]


async def test_a_slice_that_has_gone_when_its_deletion_is_requested_is_deleted(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cloud.make("pod")
    nodes = cloud.service._nodes

    def gone(name: str) -> None:
        nodes.discard(nodes.get(name))
        raise rpc_errors.not_found(name)

    monkeypatch.setattr(nodes, "delete", gone)

    assert await last_of(cloud.api.lifecycle.delete("local-a", "pod")) == "pod is deleted"


@pytest.mark.parametrize("held", [True, False], ids=["in progress", "done"])
@pytest.mark.parametrize("verb", ["stop", "start"])
async def test_a_start_or_stop_whose_answer_is_lost_is_awaited(cloud: Cloud, verb: str, held: bool) -> None:
    await cloud.make("pod")
    if verb == "start":
        await last_of(cloud.api.lifecycle.stop("local-a", "pod"))
    method, change = f"{verb.capitalize()}Node", getattr(cloud.api.lifecycle, verb)("local-a", "pod")

    lines = await without_answer(cloud, method, change, held=held)

    assert lines[-1] == ("pod is STOPPED" if verb == "stop" else "pod is READY")
    assert verbs(cloud).count(verb) == 1


async def test_a_start_that_fails_after_a_lost_answer_is_reported_with_the_cause(cloud: Cloud) -> None:
    await cloud.make("pod")
    await last_of(cloud.api.lifecycle.stop("local-a", "pod"))
    cloud.service.faults.operation_failures["start"] = [rpc_errors.no_capacity("local-a")]

    with pytest.raises(CloudError, match="slice pod cannot be started: There is no more capacity"):
        await without_answer(cloud, "StartNode", cloud.api.lifecycle.start("local-a", "pod"), held=True)

    assert (await cloud.api.get("pod", None)).state == "STOPPED"


async def test_a_slice_that_is_stopped_already_is_not_stopped_again(cloud: Cloud) -> None:
    await cloud.make("pod")
    await last_of(cloud.api.lifecycle.stop("local-a", "pod"))

    with pytest.raises(UsageError, match="is STOPPED; it must be READY"):
        await last_of(cloud.api.lifecycle.stop("local-a", "pod"))


async def test_a_reset_whose_answer_is_lost_is_carried_out_once(cloud: Cloud) -> None:
    await created(cloud, queue=QueueRequest())

    lines = await without_answer(cloud, "ResetQueuedResource", cloud.api.queue.reset("local-a", "pod"), held=True)

    assert lines[0] == "requested the reset of queued resource pod"
    assert verbs(cloud).count("reset") == 1


@pytest.mark.parametrize("verb", ["delete", "stop", "reset"])
async def test_an_operation_that_fails_half_way_leaves_everything_as_it_was(cloud: Cloud, verb: str) -> None:
    await created(cloud, queue=QueueRequest() if verb == "reset" else None)
    cloud.service.faults.operation_failures[verb] = [rpc_errors.ApiError("INTERNAL", "Internal error: power")]
    lifecycle = cloud.api.lifecycle
    change = {"delete": lifecycle.delete, "stop": lifecycle.stop, "reset": cloud.api.queue.reset}[verb]

    with pytest.raises(CloudError, match="Internal error: power"):
        await last_of(change("local-a", "pod"))

    slice_ = await cloud.api.get("pod", None)
    assert (slice_.state, cloud.hosts.running()) == ("READY", ["pod"])
    await last_of(change("local-a", "pod"))


@pytest.mark.parametrize("fate", ["PREEMPTED", "gone"])
async def test_a_slice_that_is_lost_during_its_start_is_not_reported_as_started(cloud: Cloud, fate: str) -> None:
    await cloud.make("pod", spot=True)
    await last_of(cloud.api.lifecycle.stop("local-a", "pod"))
    nodes = cloud.service._nodes
    released = nodes._release

    def lose(hosted: Any) -> Any:
        answer = released(hosted)
        if fate == "gone":
            nodes.discard(hosted)
        else:
            cloud.hosts.kill("pod", 0)
        return answer

    nodes._release = lose  # type: ignore[method-assign]

    with pytest.raises(CloudError, match=f"slice pod was started and lost: it is {fate}: spot capacity") as caught:
        await last_of(cloud.api.lifecycle.start("local-a", "pod"))
    assert "tpu-tui slices create pod --zone local-a --type v2-8" in caught.value.remedy


async def test_a_slice_is_preempted_and_then_gone_while_it_is_listed(cloud: Cloud) -> None:
    await cloud.make("pod", "v2-32", spot=True)
    shown = (await cloud.api.slices()).slices
    cloud.hosts.kill("pod", 2)
    preempted = (await cloud.api.slices()).slices
    await last_of(cloud.connect().lifecycle.delete("local-a", "pod"))
    gone = (await cloud.api.slices()).slices

    assert [[one.state for one in rows] for rows in (shown, preempted, gone)] == [["READY"], ["PREEMPTED"], []]
    with pytest.raises(UsageError, match="slice pod cannot be read: it does not exist any more"):
        await cloud.api.describe(shown[0])
    assert await cloud.api.host_keys(shown[0]) == shown[0]


@pytest.mark.parametrize("limited", [True, False])
async def test_a_request_is_repeated_after_the_time_that_a_busy_api_names(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def sleep_briefly(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(min(seconds, 0.01))

    faults = cloud.service.faults
    await cloud.api.slices()
    faults.retry_after_seconds = 3
    faults.rate_limited, faults.unavailable["local-a"] = (2, 0) if limited else (0, 2)
    with monkeypatch.context() as patched:
        patched.setattr("tui.cloud.tpu.tpu_client.asyncio.sleep", sleep_briefly)
        assert not (await cloud.api.offers()).problems

    assert [pause for pause in pauses if pause == 3.0] == [3.0, 3.0]


async def test_a_wait_beyond_the_time_limit_is_not_begun(cloud: Cloud) -> None:
    cloud.service.faults.retry_after_seconds = 60
    cloud.service.faults.rate_limited = FOREVER

    error = await refused(cloud)

    assert "Requests per minute" in error.why
    assert error.remedy.startswith("wait a minute")
