"""Tests of requests for slices: what is refused before anything is sent, and the equivalent gcloud command."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tui.errors import UsageError
from tui.pod.accelerator import type_of_topology
from tui.pod.creation.gcloud_commands import create_command_of_gcloud, list_create_options
from tui.pod.creation.gcloud_notation import parse_duration, parse_moment
from tui.pod.creation.request_checks import check_slice_request
from tui.pod.creation.slice_request import DataDisk, QueueRequest, SliceRequest

DISK = "projects/p/zones/us-central2-b/disks/data"
PAST = datetime.now(timezone.utc) - timedelta(hours=1)


def a_request(**fields: Any) -> SliceRequest:
    if not fields.keys() & {"accelerator_type", "generation", "topology"}:
        fields["accelerator_type"] = "v4-8"
    return SliceRequest("pod", "us-central2-b", **{"runtime_version": "tpu-ubuntu2204-base", **fields})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"accelerator_type": ""}, "no type was given"),
        ({"accelerator_type": "v4-8", "topology": "2x2x1"}, "the type v4-8 has a topology already"),
        ({"accelerator_type": "v4-8", "generation": "v4"}, "--type and --accelerator-type were both given"),
        ({"topology": "2x2x1"}, "--topology needs the generation"),
        ({"generation": "v4"}, "--type v4 is a generation, which has many sizes"),
        ({"generation": "v9", "topology": "2x2"}, "there is no generation v9"),
        ({"generation": "tpu7x", "topology": "2x2x1"}, "the Cloud TPU API has no tpu7x"),
        ({"accelerator_type": "tpu7x-8"}, "the Cloud TPU API has no tpu7x"),
        ({"architecture": "node"}, "a TPU Node is a v2 or v3, and v4-8 is neither"),
        ({"architecture": "node", "accelerator_type": "v3-8", "spot": True}, "a TPU Node has no --spot"),
        ({"architecture": "node", "accelerator_type": "v3-8", "metadata": {"a": "b"}}, "a TPU Node has no metadata"),
        ({"architecture": "node", "accelerator_type": "v3-8", "queue": QueueRequest()}, "cannot be queued"),
        (
            {"architecture": "node", "accelerator_type": "v3-8", "cidr_range": "10.0.0.0/30"},
            "not a block of addresses",
        ),
        ({"generation": "v4", "topology": "2xtwo"}, "2xtwo is not a topology"),
        ({"runtime_version": ""}, "no runtime version was given"),
        ({"spot": True, "preemptible": True}, "either spot or preemptible"),
        ({"spot": True, "reserved": True}, "a reservation has no spot capacity"),
        ({"preemptible": True, "reserved": True}, "a reservation has no preemptible capacity"),
        ({"labels": {"created-by": "me"}}, "the label created-by is set by tpu-tui"),
        ({"labels": {"Team": "x"}}, "'Team' cannot be the key of a label"),
        ({"labels": {"team": "A b"}}, "'A b' cannot be the value of label team"),
        ({"labels": {f"l{number}": "" for number in range(64)}}, "more than 64 labels"),
        ({"metadata": {"a b": "x"}}, "'a b' cannot be a metadata key"),
        (
            {"metadata": {"big": "x" * 262_145}},
            "metadata big has 262,145 bytes, and 262,144 are allowed",
        ),
        ({"metadata": dict.fromkeys("abc", "é" * 100_000)}, "600,003 bytes, and 524,288 are allowed"),
        ({"data_disks": (DataDisk("data"),)}, "data is not the full path of a disk"),
        ({"data_disks": (DataDisk(DISK.replace("2-b", "1-a")),)}, "is not in us-central2-b"),
        ({"accelerator_type": "v4-16", "data_disks": (DataDisk(DISK),)}, "one worker only, and there are 2"),
        ({"data_disks": (DataDisk(DISK), DataDisk(DISK))}, "a disk was given twice"),
        ({"description": "d" * 513}, "more than 512 characters"),
        ({"service_account": "me"}, "me is not an e-mail address"),
        ({"tags": ("Web",)}, "'Web' cannot be a network tag"),
        ({"tags": tuple(f"t{number}" for number in range(65))}, "more than 64 tags"),
        ({"preemptible": True, "queue": QueueRequest()}, "queued slices cannot be preemptible"),
        ({"queue_count": 2, "queue": QueueRequest()}, "queue has no --queue-count"),
        ({"queue": QueueRequest(nodes=1)}, "--nodes must be 2 or more"),
        ({"queue": QueueRequest(node_prefix="p")}, "--node-prefix is for several slices"),
        ({"queue": QueueRequest(node_id="n", nodes=2)}, "--node-id names one slice, and --nodes makes several"),
        ({"queue": QueueRequest(valid_for_s=60, valid_until=PAST)}, "--valid-for and --valid-until were both given"),
        ({"queue": QueueRequest(valid_for_s=0)}, "--valid-for is 0"),
        ({"queue": QueueRequest(valid_until=PAST)}, "is in the past"),
        ({"queue": QueueRequest(nodes=11, node_prefix="p" * 61)}, "a name has up to 63"),
    ],
)
def test_requests_that_the_api_would_refuse_are_refused_in_one_sentence(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_slice_request(a_request(**fields))

    assert refused.value.what == "slice pod cannot be created in us-central2-b"
    assert why in refused.value.why
    assert refused.value.remedy


@pytest.mark.parametrize(
    "fields",
    [
        {"generation": "v4", "topology": "2x2x2", "data_disks": (DataDisk(DISK, "read-only"),)},
        {"data_disks": (DataDisk(DISK),), "labels": {"größe": "éins", "created-by": "tpu-tui"}},
        {"metadata": {"startup-script": "x" * 262_144}, "tags": ("web",), "service_account": "a@b.c"},
        {"queue": QueueRequest(nodes=2, node_prefix="p", valid_for_s=1), "spot": True},
    ],
)
def test_requests_that_the_api_would_accept_are_accepted(fields: dict[str, Any]) -> None:
    check_slice_request(a_request(**fields))


@pytest.mark.parametrize("text", ["99999999w", "p40000d", "40000d"])
def test_a_duration_too_long_for_the_api_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be at most 100 years"):
        parse_duration(text)


def test_a_time_after_the_last_one_in_utc_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a time"):
        parse_moment("9999-12-31T23:59:59-05:00")


@pytest.mark.parametrize(
    ("generation", "topology", "name"),
    [
        ("v2", "4x4", "v2-32"),
        ("v4", "2x2x2", "v4-16"),
        ("v5litepod", "2x4", "v5litepod-8"),
        ("v5p", "2x2x1", "v5p-8"),
        ("v6e", "16x16", "v6e-256"),
        ("tpu7x", "2x2x1", "tpu7x-8"),
        ("v4", "0x2", None),
        ("v4", "2x", None),
        ("v9", "2x2", None),
    ],
)
def test_a_topology_has_the_type_of_its_chips(generation: str, topology: str, name: str | None) -> None:
    assert type_of_topology(generation, topology) == name


def options(request: SliceRequest) -> list[str]:
    return shlex.split(create_command_of_gcloud(request, "p"))


def test_the_gcloud_command_has_the_requested_options_and_the_label() -> None:
    words = options(a_request(spot=True, internal_ips=True, tags=("a", "b"), labels={"team": "vision"}))

    assert words[:6] == ["gcloud", "compute", "tpus", "tpu-vm", "create", "pod"]
    assert {"--project=p", "--zone=us-central2-b", "--accelerator-type=v4-8", "--spot", "--internal-ips"} <= {*words}
    assert {"--version=tpu-ubuntu2204-base", "--tags=a,b", "--labels=team=vision,created-by=tpu-tui"} <= {*words}


def test_values_with_commas_get_another_delimiter() -> None:
    words = options(a_request(metadata={"list": "a,b", "url": "x:y"}))

    assert "--metadata=^;^list=a,b;url=x:y" in words


def test_values_from_files_are_named_by_their_files() -> None:
    request = a_request(metadata={"startup-script": "#!/bin/sh", "a": "1"}, metadata_files={"startup-script": "s.sh"})

    assert {"--metadata=a=1", "--metadata-from-file=startup-script=s.sh"} <= {*options(request)}


def test_generations_that_gcloud_has_in_alpha_only_use_the_alpha_command() -> None:
    assert options(a_request(generation="v5p", topology="2x2x1"))[:2] == ["gcloud", "alpha"]
    assert options(a_request(generation="v4", topology="2x2x1"))[:2] == ["gcloud", "compute"]


def test_a_queued_request_uses_gclouds_command_and_its_spellings() -> None:
    until = datetime(2099, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    words = options(a_request(queue=QueueRequest(nodes=2, node_prefix="p", valid_until=until)))

    assert words[3:6] == ["queued-resources", "create", "pod"]
    assert {"--node-count=2", "--node-prefix=p", "--valid-until-time=2099-01-02T03:04:05Z"} <= {*words}
    assert "--runtime-version=tpu-ubuntu2204-base" in words
    assert "--node-id=pod" in options(a_request(queue=QueueRequest()))


def test_the_command_for_a_tpu_node_is_the_one_for_tpus() -> None:
    request = a_request(
        architecture="node",
        accelerator_type="v2-32",
        runtime_version="pytorch-1.13",
        network="default",
        cidr_range="10.9.0.0/28",
        description="two words",
        preemptible=True,
        labels={"team": "vision"},
    )
    command = options(request)
    assert command[:5] == ["gcloud", "compute", "tpus", "create", "pod"]
    assert command[5:] == [
        "--project=p",
        "--zone=us-central2-b",
        "--accelerator-type=v2-32",
        "--version=pytorch-1.13",
        "--description=two words",
        "--network=default",
        "--range=10.9.0.0/28",
        "--preemptible",
    ]
    assert options(replace(request, preemptible=False, reserved=True))[:3] == ["gcloud", "beta", "compute"]
    assert ("architecture", "node") in list_create_options(request)
