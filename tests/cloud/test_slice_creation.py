"""Creating slices with every option, at once and through the queue, and each way in which it can fail."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud import tpu_v2

from tests.cloud.conftest import Cloud, a_request
from tests.localpod.api_clients import PLACE, named, until
from tui.errors import CloudError, TpuTuiError, UsageError
from tui.localpod.api import rpc_errors
from tui.localpod.api.faults import FOREVER
from tui.pod.creation.slice_request import CreationStep, DataDisk, QueueRequest

pytestmark = pytest.mark.timing

NO_CAPACITY = rpc_errors.no_capacity("local-a")


async def created(cloud: Cloud, *, dry_run: bool = False, waits: bool = True, **fields: Any) -> list[CreationStep]:
    return [step async for step in cloud.api.create(a_request(**fields), dry_run=dry_run, waits=waits)]


async def refused(cloud: Cloud, **fields: Any) -> TpuTuiError:
    with pytest.raises(TpuTuiError) as caught:
        await created(cloud, **fields)
    return caught.value


async def node(cloud: Cloud, name: str = "pod") -> tpu_v2.Node:
    client = await cloud.api._api.open()
    return await client.get_node(name=named(name))


def creations(cloud: Cloud) -> list[str]:
    """The targets of the creations that the service began."""
    metadata = [operation.metadata for operation in cloud.service._operations._entries.values()]
    return [str(one.target).rpartition("/")[2] for one in metadata if one.verb == "create"]


async def test_every_option_reaches_the_node(cloud: Cloud) -> None:
    disk = "projects/local/zones/local-a/disks/data"
    steps = await created(
        cloud,
        kind="v2-32",
        description="words",
        network="net",
        subnetwork="sub",
        internal_ips=True,
        queue_count=3,
        cidr_range="10.0.0.0/29",
        service_account="a@b.c",
        scopes=("https://www.googleapis.com/auth/cloud-platform",),
        tags=("web",),
        labels={"team": "vision"},
        metadata={"key": "value"},
        data_disks=(DataDisk(disk, "read-only"),),
        preemptible=True,
        secure_boot=True,
    )

    made = await node(cloud)
    assert made.network_config.network.endswith("/networks/net")
    assert made.network_config.subnetwork.endswith("/subnetworks/sub")
    assert (made.network_config.enable_external_ips, made.network_config.queue_count) == (False, 3)
    assert (made.description, made.cidr_block, list(made.tags)) == ("words", "10.0.0.0/29", ["web"])
    assert made.service_account.email == "a@b.c"
    assert dict(made.labels) == {"team": "vision", "created-by": "tpu-tui"}
    assert dict(made.metadata) == {"key": "value"}
    assert [(one.source_disk, one.mode) for one in made.data_disks] == [
        (disk, tpu_v2.AttachedDisk.DiskMode.READ_ONLY)
    ]
    assert made.scheduling_config.preemptible
    assert made.shielded_instance_config.enable_secure_boot
    assert steps[0].request is not None
    assert steps[0].request["node"]["labels"] == {"team": "vision", "created-by": "tpu-tui"}
    assert steps[-1].operation == steps[0].operation
    assert str(steps[0].operation).startswith(f"{PLACE}/operations/")
    assert steps[-1].elapsed_s > 0


async def test_a_generation_with_a_topology_is_a_type(cloud: Cloud) -> None:
    await created(cloud, kind="", generation="v4", topology="2x2x2")

    slice_ = await cloud.api.get("pod", None)
    assert (slice_.accelerator_type, len(slice_.workers)) == ("v4-16", 2)


async def test_a_dry_run_refuses_a_topology_that_the_zone_does_not_have(cloud: Cloud) -> None:
    error = await refused(cloud, kind="", generation="v4", topology="3x3x3", dry_run=True)

    assert error.why == "there is no accelerator type v4-54 in local-a"
    assert creations(cloud) == []


async def test_a_detached_creation_ends_when_it_is_accepted(cloud: Cloud) -> None:
    cloud.service.faults.hold_operations()

    steps = await created(cloud, waits=False)

    assert [step.text for step in steps] == ["requested pod: v2-8 with tpu-ubuntu2204-base in local-a"]
    assert (await cloud.api.get("pod", None)).state == "CREATING"


# ── lost answers, busy services ──────────────────────────────────────────────────────────────────


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


# ── refusals, each with its next step ────────────────────────────────────────────────────────────


async def test_a_quota_is_named_with_its_numbers(cloud: Cloud) -> None:
    cloud.service.faults.worker_quota = 3

    error = await refused(cloud, kind="v4-32")

    assert error.why == "quota TPUV4PerProjectPerZoneForTPUAPI is used up: its limit in local-a is 3"
    assert "quotas?project=local" in error.remedy


async def test_a_stock_out_names_the_zones_that_have_the_type(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    cloud.service.faults.offered_types["local-b"] = frozenset({"v2-32"})

    error = await refused(cloud)

    assert error.why == "local-a has no v2-8 left now"
    assert error.remedy == (
        "try another zone that has v2-8 (faraway-c), or wait for capacity with --queued, or use --spot"
    )
    assert (await cloud.api.slices()).slices == ()


async def test_a_type_that_the_zone_does_not_have_names_those_that_do(cloud: Cloud) -> None:
    cloud.service.faults.offered_types["local-a"] = frozenset({"v2-32"})

    for dry_run in (False, True):
        error = await refused(cloud, kind="v4-8", dry_run=dry_run)
        assert isinstance(error, UsageError)
        assert error.why == "there is no accelerator type v4-8 in local-a"
        assert error.remedy == "v4-8 is in faraway-c, local-b"


@pytest.mark.parametrize(
    ("reserved", "remedy"), [(True, "omit --reserved"), (False, "add --reserved")], ids=["reserved", "on demand"]
)
async def test_a_reservation_that_is_too_small_is_no_stock_out(cloud: Cloud, reserved: bool, remedy: str) -> None:
    cloud.service.faults.reserved_capacity = 0
    cloud.service.faults.creation_failures = [] if reserved else [rpc_errors.insufficient_reservation()]

    error = await refused(cloud, reserved=reserved)

    assert error.why.startswith("the reservation is too small: Insufficient reserved capacity.")
    assert remedy in error.remedy
    assert "EID" not in error.why


@pytest.mark.parametrize(
    ("answer", "why", "remedy"),
    [
        (
            rpc_errors.permission_denied("tpu.nodes.create", PLACE),
            "(missing: tpu.nodes.create)",
            "roles/tpu.admin",
        ),
        (
            rpc_errors.service_disabled("local"),
            "the Cloud TPU API is not enabled in project local",
            "gcloud services enable tpu.googleapis.com --project local",
        ),
        (
            rpc_errors.quota_project_denied("billed"),
            "this login may not bill requests to billed (missing: serviceusage.services.use)",
            "roles/serviceusage.serviceUsageConsumer",
        ),
        (
            rpc_errors.quota_project_required(),
            "the login has no project to bill requests to",
            "gcloud auth application-default set-quota-project local",
        ),
        (rpc_errors.token_expired(), "the access token is expired", "gcloud auth application-default login"),
    ],
    ids=["permission", "API disabled", "quota project denied", "no quota project", "expired"],
)
async def test_a_refusal_is_one_sentence_with_the_next_step(
    cloud: Cloud, answer: rpc_errors.ApiError, why: str, remedy: str
) -> None:
    cloud.service.faults.refusals["CreateNode"] = [answer]

    error = await refused(cloud)

    assert (error.what, error.exit_code) == ("slice pod cannot be created in local-a", 3)
    assert why in error.why
    assert remedy in error.remedy
    assert creations(cloud) == []


async def test_a_spot_slice_that_is_lost_at_once_is_not_called_ready(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = cloud.hosts.start

    async def start_and_lose(name: str, *rest: Any) -> Any:
        workers = await start(name, *rest)
        cloud.hosts.kill(name, 0)
        return workers

    monkeypatch.setattr(cloud.hosts, "start", start_and_lose)

    error = await refused(cloud, spot=True)

    assert error.what == "slice pod was created in local-a but is not ready"
    assert "it is PREEMPTED (spot capacity" in error.why


# ── the queue ────────────────────────────────────────────────────────────────────────────────────


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


async def test_a_queued_request_that_is_not_waited_for_ends_with_its_first_state(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0

    steps = await created(cloud, queue=QueueRequest(), waits=False)

    assert steps[-1].text in ("queued resource pod is ACCEPTED", "queued resource pod is WAITING_FOR_RESOURCES")


async def test_a_request_that_leaves_the_queue_without_capacity_fails_and_stays_as_a_leftover(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    until_ = datetime.now(timezone.utc) + timedelta(seconds=0.5)

    error = await refused(cloud, queue=QueueRequest(valid_until=until_))

    assert error.why == "local-a has no v2-8 left now"
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
                _ = [line async for line in other.delete_queued("local-a", "pod")]

    with pytest.raises(CloudError, match="was deleted while it waited"):
        await delete_once_waiting()


async def test_deleting_a_request_takes_its_slices_by_force_only_and_waits_until_all_are_gone(cloud: Cloud) -> None:
    await created(cloud, queue=QueueRequest(nodes=2))
    with pytest.raises(UsageError) as caught:
        _ = [line async for line in cloud.api.delete_queued("local-a", "pod")]
    assert (caught.value.why, caught.value.remedy) == ("it has pod-0, pod-1", "add --force to delete them too")
    would = [line async for line in cloud.api.delete_queued("local-a", "pod", force=True, dry_run=True)]
    assert would == [
        "would delete queued resource pod in local-a, now ACTIVE, and pod-0, pod-1 with the disks of their workers"
    ]
    cloud.service.faults.lost_answers["DeleteQueuedResource"] = 1

    lines = [line async for line in cloud.api.delete_queued("local-a", "pod", force=True)]

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

    lines = [line async for line in cloud.api.reset_queued("local-a", "pod")]

    assert lines[0] == "requested the reset of queued resource pod"

    async def is_active() -> bool:
        return (await cloud.api.queued_requests()).requests[0].state == "ACTIVE"

    await until(is_active)
    assert (await cloud.api.get("pod", None)).state == "READY"


@pytest.mark.parametrize("verb", ["delete_queued", "reset_queued"])
async def test_a_request_that_does_not_exist_cannot_be_changed(cloud: Cloud, verb: str) -> None:
    with pytest.raises(UsageError, match="there is no such queued resource"):
        _ = [line async for line in getattr(cloud.api, verb)("local-a", "ghost")]


async def test_requests_of_every_zone_are_listed_and_a_zone_that_is_away_is_a_problem(cloud: Cloud) -> None:
    everywhere = cloud.connect(zones=())
    for zone in ("local-a", "local-b"):
        _ = [
            step async for step in everywhere.create(a_request("wish", zone=zone, queue=QueueRequest(node_id="one")))
        ]
    cloud.service.faults.unavailable["local-b"] = FOREVER

    listing = await everywhere.queued_requests()

    assert [row.path for row in listing.requests] == ["local-a/wish"]
    assert [problem.what for problem in listing.problems] == ["slices in local-b cannot be listed"]


async def test_offers_have_types_topologies_and_versions_of_each_zone(cloud: Cloud) -> None:
    cloud.service.faults.offered_types["local-b"] = frozenset({"v4-16"})

    listing = await cloud.connect(zones=()).offers()

    assert [offer.zone for offer in listing.offers] == ["faraway-c", "local-a", "local-b"]
    (row,) = listing.offers[2].to_json()
    assert (row["zone"], row["type"], row["topologies"]) == ("local-b", "v4-16", ["2x2x2"])
    assert "tpu-ubuntu2204-base" in row["versions"]


async def test_a_zone_that_does_not_exist_is_a_problem_of_the_offers(cloud: Cloud) -> None:
    listing = await cloud.connect(zones=("moon-a",)).offers()

    assert listing.offers == ()
    assert "there is no such zone" in listing.problems[0].why


async def test_describing_a_slice_shows_the_apis_own_document(cloud: Cloud) -> None:
    await created(cloud, metadata={"key": "value"})
    assert (await cloud.api.describe(await cloud.api.get("pod", None)))["metadata"] == {"key": "value"}
    cloud.service.faults.worker_capacity = 0
    await created(cloud, name="wish", queue=QueueRequest(), waits=False)

    waiting = await cloud.api.describe(await cloud.api.get("wish", None))

    assert waiting["name"] == f"{PLACE}/queuedResources/wish"
