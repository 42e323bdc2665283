from __future__ import annotations

from dataclasses import replace

import pytest

from tui.checks.slice_state import runtime_rows, slice_rows, state_remedy
from tui.pod.slice import Slice, Symptom
from tui.pod.worker import Worker

WORKERS = tuple(Worker(index) for index in range(4))


def pod(**fields: object) -> Slice:
    return Slice(name="pod", zone="z", workers=WORKERS, **{"state": "READY", "health": "HEALTHY", **fields})  # type: ignore[arg-type]


def test_a_ready_and_healthy_slice_passes() -> None:
    assert [(row.check, row.status) for row in slice_rows(pod())] == [("slice", "pass"), ("health", "pass")]


@pytest.mark.parametrize(
    ("state", "remedy"),
    [
        ("CREATING", "wait until it is READY"),
        ("WAITING_FOR_RESOURCES", "queued resource wish has no capacity yet"),
        ("STOPPED", "tpu-tui slices start z/pod"),
        ("PREEMPTED", "tpu-tui slices delete z/pod, then create it again"),
        ("A_NEW_STATE", "tpu-tui slices"),
    ],
)
def test_any_other_state_fails_with_its_next_step(state: str, remedy: str) -> None:
    (row,) = slice_rows(pod(state=state, queued_resource="wish"))

    assert (row.status, row.detail) == ("fail", state)
    assert remedy in (row.remedy or "")


def test_an_unknown_state_is_unknown_and_does_not_pass() -> None:
    assert [row.status for row in slice_rows(pod(state=None, health=None))] == ["unknown", "unknown"]


def test_bad_health_fails_with_the_escaped_description_of_the_api() -> None:
    row = slice_rows(pod(health="TIMEOUT", health_description="gone\x1b[2J\nquite"))[1]

    assert row.status == "fail"
    assert row.detail.startswith("TIMEOUT: gone")
    assert "\x1b" not in row.detail
    assert "\n" not in row.detail


def test_a_symptom_names_its_worker_and_what_to_do() -> None:
    symptoms = (
        Symptom("HBM_OUT_OF_MEMORY", "2", "hbm full"),
        Symptom("OUT_OF_MEMORY", "t1v-n-0a1b2c3d-w-3", "host full", "2024-01-01T00:00:00Z"),
        Symptom("NEW_KIND", "other-77", "odd"),
    )

    rows = slice_rows(pod(symptoms=symptoms))[2:]

    assert [(row.check, row.worker, row.status) for row in rows] == [
        ("symptom", 2, "warn"),
        ("symptom", 3, "warn"),
        ("symptom", None, "warn"),
    ]
    assert "batch" in (rows[0].remedy or "")
    assert "2024-01-01T00:00:00Z" in rows[1].detail
    assert "other-77" in rows[2].detail


@pytest.mark.parametrize(
    ("group", "remedy"), [("users", "use the slice z/users"), (None, "groups create GROUP --tpu-node pod")]
)
def test_a_tpu_node_has_no_login_and_names_the_group_that_has(group: str | None, remedy: str) -> None:
    endpoints = ("10.9.0.2:8470", "10.9.0.3:8470")
    node = replace(pod(api_version="V1"), workers=(), node_endpoints=endpoints, instance_group=group)
    rows = slice_rows(node)

    assert (rows[0].detail, rows[-1].status) == ("READY, 2 endpoints", "warn")
    assert remedy in (rows[-1].remedy or "")


def test_a_hosts_file_has_no_state_to_check() -> None:
    assert slice_rows(Slice(name="lab", source="hosts_file", workers=WORKERS)) == []


def test_an_instance_group_names_the_vms_to_start_and_waits_for_what_it_does_itself() -> None:
    workers = (Worker(0, hostname="g-a"), Worker(1, hostname="g-b"))
    group = Slice("g", "z", "instance_group", state="STOPPED", workers=workers)
    stopped = replace(group, symptoms=(Symptom("STOPPED", "1", "(g-b) is TERMINATED"),))
    assert state_remedy(stopped) == "gcloud compute instances start g-b --zone=z"
    assert state_remedy(replace(group, workers=())) == "tpu-tui groups resize z/g --size N"
    assert state_remedy(replace(group, tpu_node="pod")) == "tpu-tui slices start z/pod"
    assert state_remedy(replace(group, tpu_node="pod", state="PREEMPTED")).startswith("tpu-tui slices delete z/pod")
    preempted = replace(group, state="PREEMPTED", symptoms=(Symptom("PREEMPTED", "0", "(g-a) is TERMINATED"),))
    assert state_remedy(preempted).startswith("wait: the group recreates the VM")
    assert state_remedy(replace(group, state="REPAIRING")) == "wait until it is READY"


def test_a_group_without_a_health_check_has_no_row_about_its_health() -> None:
    ready = Slice("g", "z", "instance_group", state="READY", workers=(Worker(0),))
    assert [row.check for row in slice_rows(ready)] == ["slice"]
    sick = replace(ready, health="TIMEOUT", symptoms=(Symptom("TIMEOUT", "0", "(g-a) is RUNNING, TIMEOUT"),))
    assert [(row.check, row.worker) for row in slice_rows(sick)] == [
        ("slice", None),
        ("health", None),
        ("symptom", 0),
    ]


@pytest.mark.parametrize(
    ("kind", "runtime", "status"),
    [
        ("v3-32", "tpu-ubuntu2204-base", "pass"),
        ("v2-8", "tpu-vm-pt-1.13", "pass"),
        ("v4-8", "tpu-vm-v4-pt-2.0", "pass"),
        ("v4-8", "v2-alpha-tpuv4", "pass"),
        ("v2-8", "tpu-vm-v4-pt-2.0", "fail"),
        ("v5litepod-16", "v2-alpha-tpuv5-lite", "pass"),
        ("v5litepod-16", "v2-alpha-tpuv5", "fail"),
        ("v5p-8", "v2-alpha-tpuv5", "pass"),
        ("v6e-8", "v2-alpha-tpuv6e", "pass"),
        ("v6e-8", "tpu-ubuntu2204-base", "fail"),
        ("v6e-8", "our-image", "unknown"),
    ],
)
def test_the_runtime_is_made_for_the_accelerator(kind: str, runtime: str, status: str) -> None:
    (row,) = runtime_rows(Slice("pod", accelerator_type=kind, runtime_version=runtime))

    assert row.status == status
    assert (row.remedy is not None) == (status == "fail")


def test_without_a_type_there_is_no_row() -> None:
    assert runtime_rows(Slice("lab", runtime_version="v2-alpha")) == []
    assert runtime_rows(Slice("lab", accelerator_type="local-4", runtime_version="v2-alpha")) == []
