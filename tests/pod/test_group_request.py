"""Requests for groups: what is refused, what is sent, and gcloud's commands for the same."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from tui.errors import UsageError
from tui.pod.groups.group_checks import check_group_request
from tui.pod.groups.group_documents import (
    group_document,
    image_document,
    policy_document,
    resize_request_document,
    template_document,
)
from tui.pod.groups.group_gcloud import create_group_commands, delete_command_of_gcloud
from tui.pod.groups.group_request import GroupRequest, group_in_marker
from tui.pod.resources import GROUP, POLICY, TEMPLATE, CloudResource

USER_VMS = GroupRequest("pytorch", "europe-west4-a", size=4, machine_type="n1-standard-16", image="base")
SLICE = GroupRequest("big", "us-central1-a", accelerator_type="tpu7x", topology="2x2x4", image="base")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "Py"}, "a name has up to 63 lower-case letters"),
        ({"size": None}, "no size was given"),
        ({"size": 0}, "--size is 0"),
        ({"machine_type": ""}, "no machine type was given"),
        ({"image": ""}, "no image was given"),
        ({"image_family": "f"}, "--image and --image-family were both given"),
        ({"template": "t"}, "--machine-type is for a new template, and --template names one"),
        ({"topology": "4x4"}, "n1-standard-16 have no TPU chips to connect"),
        ({"machine_type": "ct6e-standard-4t", "topology": "4x4x"}, "4x4x is not a topology"),
        (
            {"machine_type": "ct6e-standard-4t", "topology": "4x4", "size": 2},
            "4x4 needs 4 VMs of ct6e-standard-4t, not 2",
        ),
        ({"machine_type": "ct6e-standard-8t", "topology": "1x3"}, "1x3 is not a"),
        ({"accelerator_type": "v6e-16"}, "--accelerator-type and --machine-type were both given"),
        ({"machine_type": "", "accelerator_type": "v3-32"}, "Compute Engine has no machine type for v3-32"),
        ({"machine_type": "", "accelerator_type": "v6e-16"}, "v6e-16 has 4 VMs, and how they are connected"),
        ({"machine_type": "ct6e-standard-4t", "tpu_node": "tpu"}, "a ct6e-standard-4t has TPU chips itself"),
        ({"spot": True, "reservation": "r"}, "--spot and --reservation were given"),
        ({"flex_start": True}, "flex-start VMs run for a limited time"),
        ({"flex_start": True, "run_duration_s": 60}, "--run-duration is 60 s"),
        ({"valid_for_s": 60}, "--valid-for is for groups that wait for capacity"),
        ({"labels": {"created-by": "me"}}, "the label created-by is set by tpu-tui"),
        ({"metadata": {"a b": "c"}}, "'a b' cannot be a metadata key"),
        ({"service_account": "me"}, "me is not an e-mail address"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused_with_a_remedy(change: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=r"group .* cannot be created in europe-west4-a") as caught:
        check_group_request(replace(USER_VMS, **change))
    assert why in caught.value.why
    assert caught.value.remedy


def test_good_requests_pass() -> None:
    for request in (USER_VMS, SLICE, GroupRequest("g", "z-a", size=1, template="t")):
        check_group_request(request)


def test_the_topology_says_how_many_vms_are_needed() -> None:
    assert (SLICE.machine, SLICE.vms) == ("tpu7x-standard-4t", 4)
    assert replace(SLICE, accelerator_type="v6e-16", topology="4x4").vms == 4


def test_a_template_has_the_image_the_scope_and_the_tpu_node() -> None:
    request = replace(USER_VMS, tpu_node="tpu", scopes=("storage-rw",), description="for Ana")
    document = template_document(request, "p")
    properties = document["properties"]

    assert document["description"] == "tpu-tui: for group europe-west4-a/pytorch. for Ana"
    assert group_in_marker(document["description"]) == "europe-west4-a/pytorch"
    assert properties["disks"][0]["initializeParams"] == {"sourceImage": "projects/p/global/images/base"}
    assert properties["serviceAccounts"][0]["scopes"] == ["https://www.googleapis.com/auth/devstorage.read_write"]
    assert properties["metadata"] == {"items": [{"key": "tpu-node", "value": "tpu"}]}
    assert properties["scheduling"] == {"provisioningModel": "STANDARD", "automaticRestart": True}


def test_one_slice_has_a_workload_policy_and_is_created_at_once() -> None:
    group = group_document(SLICE, "p")

    assert policy_document(SLICE)["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x4"}
    assert group["targetSizePolicy"] == {"mode": "BULK"}
    assert group["resourcePolicies"] == {"workloadPolicy": "projects/p/regions/us-central1/resourcePolicies/big"}
    assert group["targetSize"] == 4
    reserved = template_document(replace(SLICE, reservation="res"), "p")["properties"]
    assert reserved["scheduling"]["provisioningModel"] == "RESERVATION_BOUND"
    assert reserved["reservationAffinity"]["values"] == ["res"]


def test_flex_start_asks_for_vms_with_a_resize_request_except_for_one_slice() -> None:
    flex = replace(USER_VMS, flex_start=True, run_duration_s=28_800)
    whole = replace(SLICE, flex_start=True, run_duration_s=28_800)

    assert group_document(flex, "p")["targetSize"] == 0
    assert group_document(flex, "p")["instanceLifecyclePolicy"] == {"defaultActionOnFailure": "DO_NOTHING"}
    request = resize_request_document(flex)
    assert (request["resizeBy"], request["requestedRunDuration"]) == (4, {"seconds": "28800"})
    assert not whole.has_resize_request
    scheduling = template_document(whole, "p")["properties"]["scheduling"]
    assert scheduling["maxRunDuration"] == {"seconds": "28800"}
    assert scheduling["instanceTerminationAction"] == "DELETE"


def test_the_image_is_of_the_boot_disk_and_stays_in_the_region() -> None:
    disk = "projects/p/zones/europe-west4-a/disks/vm"
    image = image_document(replace(USER_VMS, image="", image_from="vm", source_disk=disk, image_family="torch-xla"))

    assert (image["name"], image["sourceDisk"], image["family"]) == ("pytorch", disk, "torch-xla")
    assert image["storageLocations"] == ["europe-west4"]


def test_gclouds_commands_are_those_of_the_spanish_document() -> None:
    request = replace(USER_VMS, image="img", image_from="vm", image_family="torch-xla")
    commands = [shlex.split(line) for line in create_group_commands(request, "p")]

    verbs = [" ".join(word for word in words if not word.startswith("--")) for words in commands]
    assert verbs == [
        "gcloud compute instances stop vm",
        "gcloud compute images create img",
        "gcloud compute instance-templates create pytorch",
        "gcloud compute instance-groups managed create pytorch",
    ]
    assert {"--source-disk=vm", "--source-disk-zone=europe-west4-a", "--family=torch-xla"} <= set(commands[1])
    assert {"--machine-type=n1-standard-16", "--image-project=p", "--image=img"} <= set(commands[2])
    assert {"--size=4", "--template=pytorch", "--zone=europe-west4-a"} <= set(commands[3])


def test_gclouds_commands_of_a_slice_and_of_flex_start_and_of_the_clean_up() -> None:
    policy, _, group = create_group_commands(SLICE, "p")
    assert policy.startswith("gcloud compute resource-policies create workload-policy big")
    assert "--accelerator-topology=2x2x4" in policy
    assert "--target-size-policy-mode=bulk" in group
    *_, flex = create_group_commands(replace(USER_VMS, flex_start=True, run_duration_s=600), "p")
    assert "resize-requests create pytorch" in flex
    assert "--requested-run-duration=600s" in flex
    deletions = [CloudResource(GROUP, "g", "z-a"), CloudResource(TEMPLATE, "g"), CloudResource(POLICY, "g", "z")]
    assert [delete_command_of_gcloud(one, "p") for one in deletions] == [
        "gcloud compute instance-groups managed delete g --project=p --zone=z-a",
        "gcloud compute instance-templates delete g --project=p",
        "gcloud compute resource-policies delete g --project=p --region=z",
    ]
