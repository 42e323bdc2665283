"""What the API's states mean for a run whose workers do not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.slice import Slice, Symptom
from tui.pod.worker import Worker
from tui.runs.health.slice_diagnosis import diagnose

RUN = Run(
    "pod-20261121-101500-00aa",
    "pod",
    JobOptions(("true",)),
    (Worker(0),),
    zone="z",
    slice_created="2026-11-21T09:00:00Z",
)
BEFORE, AFTER = "2026-11-21T09:00:00Z", "2026-11-21T11:00:00Z"


def slice_in(state: str | None, created: str = BEFORE, **fields: object) -> Slice:
    return Slice("pod", zone="z", state=state, created=created, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "kind", "remedy"),
    [
        ("PREEMPTED", "preempted", "slices delete pod"),
        ("SUSPENDED", "preempted", "slices delete pod"),
        ("TERMINATED", "terminated", "slices delete pod"),
        ("STOPPED", "stopped", "slices start pod"),
        ("STOPPING", "stopped", "slices start pod"),
        ("DELETING", "deleted", "slices create pod"),
        ("HIDDEN", "deleted", "slices create pod"),
    ],
)
def test_final_states_come_with_a_remedy(state: str, kind: str, remedy: str) -> None:
    diagnosis = diagnose(RUN, slice_in(state))
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.is_cause) == (kind, True, True)
    assert f"slice pod {'is being' if kind == 'deleted' else 'was'} {kind}" in diagnosis.text
    assert state in diagnosis.text
    assert remedy in diagnosis.remedy


def test_the_remedy_recreates_the_slice_as_the_api_or_the_run_record_describes_it() -> None:
    spot = replace(RUN, accelerator_type="v3-32", versions={"runtime": "tpu-vm-pt-2.0"}, spot=True)
    again = "tpu-tui slices create pod --zone z --type v3-32 --version tpu-vm-pt-2.0 --spot recreates it"
    assert diagnose(spot, None).remedy == again
    now = slice_in("PREEMPTED", accelerator_type="v3-32", runtime_version="tpu-vm-pt-2.0", preemptible=True)
    assert diagnose(RUN, now).remedy == f"tpu-tui slices delete pod --zone z, then {again}"
    firm = replace(now, preemptible=False, spot=False, runtime_version="odd; rm -rf ~")
    assert diagnose(spot, firm).remedy.endswith(
        "create pod --zone z --type v3-32 --version 'odd; rm -rf ~' recreates it"
    )


@pytest.mark.parametrize(
    ("state", "kind"), [("REPAIRING", "maintenance"), ("RESTARTING", "maintenance"), ("STARTING", "changing")]
)
def test_temporary_states_are_not_final(state: str, kind: str) -> None:
    diagnosis = diagnose(RUN, slice_in(state))
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.is_cause) == (kind, False, True)


def test_a_slice_that_does_not_exist_was_deleted() -> None:
    diagnosis = diagnose(RUN, None)
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.text) == ("deleted", True, "slice pod is deleted")


def test_a_slice_of_the_same_name_created_at_another_time_is_another_one() -> None:
    assert diagnose(RUN, slice_in("READY", AFTER)).kind == "replaced"


def test_a_ready_slice_is_not_the_cause_but_its_health_may_be() -> None:
    assert diagnose(RUN, slice_in("READY", health="HEALTHY")).kind == "ready"
    assert not diagnose(RUN, slice_in("READY")).is_cause
    sick = diagnose(RUN, slice_in("READY", health="UNHEALTHY_MAINTENANCE", health_description="host 3 is serviced"))
    assert (sick.kind, sick.is_final) == ("maintenance", False)
    assert "host 3 is serviced" in sick.text
    assert diagnose(RUN, slice_in("READY", health="TIMEOUT")).kind == "unhealthy"


def test_symptoms_of_single_workers_are_shown_without_control_characters() -> None:
    symptom = Symptom("OUT_OF_MEMORY", "2", "killed \x1b[31mpython\n")
    text = diagnose(RUN, slice_in("READY", symptoms=(symptom,))).text
    assert "OUT_OF_MEMORY on worker 2 killed" in text
    assert "\x1b" not in text
    assert "\n" not in text


def test_a_state_that_is_not_documented_is_unknown() -> None:
    diagnosis = diagnose(RUN, slice_in("MELTED"))
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.is_cause) == ("unknown", False, False)


VMS = tuple(
    Worker(
        index, hostname=f"tpus-{index}", instance=f"projects/p/zones/z/instances/tpus-{index}", machine_id=f"{index}1"
    )
    for index in range(4)
)
GROUP_RUN = replace(RUN, slice="tpus", source="instance_group", workers=VMS)


def group_of(*vms: Worker, state: str = "READY", symptoms: tuple[Symptom, ...] = ()) -> Slice:
    workers = tuple(replace(worker, index=index) for index, worker in enumerate(vms))
    return Slice("tpus", "z", "instance_group", state=state, created=BEFORE, workers=workers, symptoms=symptoms)


def test_a_vm_that_was_recreated_is_named_with_its_worker_and_the_reason() -> None:
    now = group_of(VMS[0], VMS[1], replace(VMS[2], machine_id="99"), VMS[3])

    found = diagnose(GROUP_RUN, now, {2: "was preempted"})

    assert (found.kind, found.text) == ("lost", "worker 2 (tpus-2) was preempted")
    assert (found.is_final, found.lost, found.is_cause) == (True, {2}, True)
    assert "--restarts" in found.remedy
    assert diagnose(GROUP_RUN, now).text == "worker 2 (tpus-2) was recreated"


def test_vms_that_a_resize_deleted_are_named_though_the_others_have_other_places_now() -> None:
    found = diagnose(GROUP_RUN, group_of(VMS[0], VMS[3]), {1: "was deleted by a resize of tpus by ada@example.com"})

    assert found.text == (
        "worker 1 (tpus-1) was deleted by a resize of tpus by ada@example.com, worker 2 (tpus-2) is no longer in tpus"
    )
    assert found.lost == {1, 2}
    assert found.remedy.startswith("tpu-tui groups resize z/tpus --size 4")


def test_a_vm_that_is_being_made_anew_is_lost_before_its_successor_is_there() -> None:
    symptom = Symptom("RECREATING", "1", "(tpus-1) is STOPPING, RECREATING")
    now = group_of(*VMS, state="REPAIRING", symptoms=(symptom,))
    assert diagnose(GROUP_RUN, now).text == "worker 1 (tpus-1) is RECREATING"
    gone = group_of(VMS[0], replace(VMS[1], machine_id=None), VMS[2], VMS[3], state="CREATING")
    assert diagnose(GROUP_RUN, gone).lost == {1}


def test_a_group_that_grew_or_restarts_a_vm_lost_none() -> None:
    more = replace(VMS[0], hostname="tpus-9", instance="projects/p/zones/z/instances/tpus-9", machine_id="91")
    assert diagnose(GROUP_RUN, group_of(*VMS, more)).kind == "ready"
    restarting = Symptom("RESTARTING", "1", "(tpus-1) is RUNNING, RESTARTING")
    assert not diagnose(GROUP_RUN, group_of(*VMS, state="RESTARTING", symptoms=(restarting,))).is_final


def test_a_run_that_lost_all_its_vms_names_the_first_ones() -> None:
    many = replace(GROUP_RUN, workers=tuple(replace(VMS[0], index=index, instance=f"i{index}") for index in range(9)))
    text = diagnose(many, group_of()).text
    assert text.count("worker") == 4
    assert text.endswith(", 5 more are gone")
