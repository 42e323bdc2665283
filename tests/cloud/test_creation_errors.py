"""Tests that each failure of a creation is reported in a sentence with its next step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloud.conftest import Cloud, creations, refused
from tests.localpod import refusals
from tests.localpod.api_clients import PLACE
from tui.errors import UsageError
from tui.localpod.api import rpc_errors

pytestmark = pytest.mark.timing


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
    cloud.service.faults.operation_failures["create"] = [refusals.insufficient_reservation()]

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
            refusals.service_disabled("local"),
            "the Cloud TPU API is not enabled in project local",
            "gcloud services enable tpu.googleapis.com --project local",
        ),
        (
            refusals.quota_project_denied("billed"),
            "this login may not bill requests to billed (missing: serviceusage.services.use)",
            "roles/serviceusage.serviceUsageConsumer",
        ),
        (
            refusals.quota_project_required(),
            "the login has no project to bill requests to",
            "gcloud auth application-default set-quota-project local",
        ),
        (refusals.token_expired(), "the access token is expired", "gcloud auth application-default login"),
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


async def test_a_spot_slice_that_is_preempted_at_once_is_not_reported_as_ready(
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
