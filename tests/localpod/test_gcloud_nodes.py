"""Each scenario of a TPU Node by tpu-tui, by gcloud and by google-cloud-tpu's client of v1, with equal results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import google.cloud.tpu_v1 as v1
import pytest
from google.protobuf.json_format import MessageToDict

from tests.localpod import refusals
from tests.localpod.api_clients import PLACE, Caller, connected, named
from tests.localpod.gcloud import TPUS, with_gcloud
from tests.localpod.gcloud_trials import Trial, is_done, plain, same_results, trial

pytestmark = [pytest.mark.gcloud, *with_gcloud]

VERSION = "pytorch-1.13"
CREATIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "type": (("--accelerator-type=v2-32", "--network=default"), {"accelerator_type": "v2-32", "network": "default"}),
    "address block": (
        ("--accelerator-type=v3-8", "--range=10.9.0.0/29", "--network=net"),
        {"accelerator_type": "v3-8", "cidr_block": "10.9.0.0/29", "network": "net"},
    ),
    "preemptible": (
        ("--accelerator-type=v3-8", "--preemptible", "--description=two words"),
        {"accelerator_type": "v3-8", "scheduling_config": {"preemptible": True}, "description": "two words"},
    ),
}
"""The options of `gcloud compute tpus create`, which are those of tpu-tui, and the fields that they set."""


@asynccontextmanager
async def v1_client(one: Trial) -> AsyncIterator[Caller]:
    async with connected(one.service, "grpc_asyncio", version="v1") as call:
        yield call


async def create(one: Trial, **fields: Any) -> None:
    async with v1_client(one) as call:
        node = {"accelerator_type": "v3-32", "tensorflow_version": VERSION, **fields}
        await call.succeeded(await call("create_node", parent=PLACE, node_id="pod", node=node))


@pytest.mark.parametrize("case", CREATIONS)
async def test_a_tpu_node_is_created_with(tmp_path: Path, case: str) -> None:
    options, fields = CREATIONS[case]
    given = ("pod", *options, f"--version={VERSION}")

    (made,) = await same_results(
        tmp_path,
        lambda one: one.did("slices", "create", "--architecture=node", *given),
        lambda one: one.gcloud.json(*TPUS, "create", *given),
        lambda one: create(one, **fields),
    )

    assert (made["name"], made["state"], made["apiVersion"]) == (named("pod"), "READY", "V1")


async def test_tpu_nodes_are_listed_and_described(tmp_path: Path) -> None:
    async with trial(tmp_path) as one:
        await create(one)
        vm = {"accelerator_type": "v2-8", "runtime_version": "tpu-ubuntu2204-base"}
        await is_done(one, "create_node", parent=PLACE, node_id="vm", node=vm)

        resource = (await one.did("slices", "describe", "pod"))["resource"]
        described = await one.gcloud.json(*TPUS, "describe", "pod")
        async with v1_client(one) as call:
            library = MessageToDict(v1.Node.pb(await call("get_node", name=named("pod"))))
        assert plain(resource) == plain(described) == plain(library)
        listed = await one.gcloud.json(*TPUS, "list")
        rows = await one.did("slices")
        assert [(row["name"], row["state"], row["accelerator_type"]) for row in rows] == [
            (row["name"].rpartition("/")[2], row["state"], row["acceleratorType"]) for row in listed
        ]
        code, table, errors = await one.gcloud(*TPUS, "list")
        assert code == 0, errors
        assert "v3-32" in table
        versions = await one.gcloud.json(*TPUS, "versions", "list")
        assert VERSION in {row["version"] for row in versions}


async def test_a_tpu_node_is_deleted(tmp_path: Path) -> None:
    async def library(one: Trial) -> None:
        async with v1_client(one) as call:
            await call.succeeded(await call("delete_node", name=named("pod")))

    left = await same_results(
        tmp_path,
        lambda one: one.did("slices", "delete", "pod", "--yes"),
        lambda one: one.gcloud.json(*TPUS, "delete", "pod"),
        library,
        prepare=create,
    )
    assert left == []


async def test_a_refusal_has_the_same_words(tmp_path: Path) -> None:
    words = "Your request to provision TPU Node has been denied. Please migrate to TPU VM Architecture"
    given = ("pod", "--accelerator-type=v2-8", f"--version={VERSION}")
    async with trial(tmp_path) as one:
        one.service.faults.refusals["CreateNode"] = [refusals.tpu_node_denied(), refusals.tpu_node_denied()]
        answer = await one.tpu_tui("slices", "create", "--architecture=node", *given)
        code, _, errors = await one.gcloud(*TPUS, "create", *given)
        assert (answer.code, code, words in answer.errors, words in errors) == (3, 1, True, True)
