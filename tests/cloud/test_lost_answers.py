"""Answers that are lost, and services that are busy: a request is carried out once, and its end is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.cloud import tpu_v2

from tests.cloud.conftest import Cloud, created, creations, refused
from tui.localpod.api.faults import FOREVER
from tui.pod.creation.slice_request import QueueRequest

pytestmark = pytest.mark.timing


async def test_a_creation_whose_answer_is_lost_makes_one_slice_and_is_waited_for(cloud: Cloud) -> None:
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


async def test_a_slice_of_another_person_is_never_taken_for_a_lost_one(cloud: Cloud) -> None:
    await created(cloud, kind="v2-32")
    cloud.service.faults.lost_answers["CreateNode"] = 1

    error = await refused(cloud, kind="v2-8")

    assert error.why == "a slice pod exists already, and is READY"
    assert cloud.service.faults.lost_answers["CreateNode"] == 1, "nothing was requested"


async def test_a_name_taken_by_another_person_meanwhile_is_refused(
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


async def test_an_api_that_stays_away_leaves_a_warning_that_the_slice_may_exist(cloud: Cloud) -> None:
    cloud.service.faults.lost_answers["CreateNode"] = 1
    cloud.service.faults.retry_after_seconds = 60

    error = await refused(cloud)

    assert "tpu-tui slices shows whether pod was requested" in error.remedy
    assert creations(cloud) == ["pod"]


@pytest.mark.parametrize("limited", [True, False])
async def test_a_busy_api_is_asked_again_after_the_time_that_it_names(
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
