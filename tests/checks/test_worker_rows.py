from __future__ import annotations

from dataclasses import replace

import pytest

from tui.checks.check_thresholds import CheckThresholds
from tui.checks.workers.check_facts import Disk, Facts, Lock, Owner, facts_from
from tui.checks.workers.worker_rows import GIB, rows_of_facts
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.ssh.exec.script_protocol import parse_answers

POD = Slice("pod", zone="z", accelerator_type="v4-8")
LOCK = Lock("/tmp/libtpu_lockfile", "root", True)
FINE = Facts(
    2,
    disks=(Disk("home", 90 * GIB, 100 * GIB, 10**6), Disk("tmp", 90 * GIB, 100 * GIB, None)),
    memory_total=100 * GIB,
    memory_free=50 * GIB,
    load=1.0,
    cpus=96,
    devices=4,
)


def status(facts: Facts, check: str, slice_: Slice = POD, **limits: float) -> list[str]:
    return [row.status for row in rows_of_facts(facts, slice_, CheckThresholds(**limits)) if row.check == check]


def test_a_healthy_worker_passes_everything() -> None:
    assert {row.status for row in rows_of_facts(FINE, POD, CheckThresholds())} == {"pass"}
    assert all(row.worker == 2 for row in rows_of_facts(FINE, POD, CheckThresholds()))


@pytest.mark.parametrize(("free", "expected"), [(6.0, "pass"), (4.9, "warn"), (0.4, "fail")])
def test_free_disk_space_is_judged_by_thresholds(free: float, expected: str) -> None:
    facts = replace(FINE, disks=(Disk("home", int(free * GIB), 100 * GIB, None), FINE.disks[1]))

    assert status(facts, "disk") == [expected, "pass"]
    assert status(facts, "disk", disk_free_gib=0.1, disk_full_gib=0.1) == ["pass", "pass"]


def test_a_disk_that_cannot_be_read_is_unknown_and_one_that_is_not_writable_fails() -> None:
    assert status(replace(FINE, disks=()), "disk") == ["unknown", "unknown"]
    closed = replace(FINE.disks[0], writable=False)
    assert status(replace(FINE, disks=(closed, FINE.disks[1])), "disk") == ["fail", "pass"]


def test_a_disk_can_be_full_of_files() -> None:
    assert status(replace(FINE, disks=(FINE.disks[0], Disk("tmp", 90 * GIB, 100 * GIB, 3))), "disk") == [
        "pass",
        "fail",
    ]


def test_memory_and_load_are_judged_by_thresholds() -> None:
    assert status(replace(FINE, memory_free=5 * GIB), "memory") == ["warn"]
    assert status(replace(FINE, memory_free=None), "memory") == ["unknown"]
    assert status(replace(FINE, load=200.0), "load") == ["warn"]
    assert status(replace(FINE, load=200.0), "load", load_per_cpu=3) == ["pass"]


def test_the_number_of_chips_is_compared_with_that_of_the_type() -> None:
    assert status(replace(FINE, devices=3), "chips") == ["fail"]
    assert status(replace(FINE, devices=0), "chips", replace(POD, accelerator_type=None)) == ["unknown"]
    assert status(replace(FINE, devices=8), "chips", replace(POD, accelerator_type="v3-8")) == ["fail"]
    named = replace(FINE, devices=8, devices_named=True)
    assert status(named, "chips", replace(POD, accelerator_type="v3-8")) == ["pass"]
    pair = replace(POD, source="instance_group", accelerator_type="v6e-8", workers=(Worker(0), Worker(1)))
    assert status(replace(FINE, devices=4), "chips", pair) == ["pass"]
    assert status(replace(FINE, devices=8), "chips", pair) == ["fail"]


def test_a_lock_that_cannot_be_opened_is_worse_than_one_that_can() -> None:
    assert status(replace(FINE, lock=LOCK), "lockfile") == ["warn"]
    assert status(replace(FINE, lock=replace(LOCK, writable=False)), "lockfile") == ["fail"]
    assert status(replace(FINE, lock=LOCK, owners_hidden=True), "lockfile") == ["unknown"]
    owner = Owner(7, "me", 3, "/dev/accel0", "python3", None)
    assert status(replace(FINE, lock=LOCK, owners=(owner,)), "lockfile") == ["pass"]


def test_the_command_that_removes_a_lock_quotes_the_path_that_the_worker_sent() -> None:
    lock = replace(LOCK, path="/tmp/lock; reboot")
    remedies = [row.remedy or "" for row in rows_of_facts(replace(FINE, lock=lock), POD, CheckThresholds())]
    assert [remedy for remedy in remedies if remedy.endswith("-- sudo rm '/tmp/lock; reboot'")]


def test_malformed_answers_and_those_with_another_nonce_are_ignored() -> None:
    output = b"\n".join(
        [
            b"@n devices 4",
            b"@x devices 9",
            b"@n disk home x 1 2 3",
            b"@n disk tmp 10 20 0 0",
            b"@n load nan many",
            b"@n memory total",
            b"@n owner 12 root soon - /dev/accel0 cmd",
            b"@n owner 13 root 5 - /dev/accel0 evil\x1b]0;title\x07 [bold]cmd",
            b"@n clock 1.0",
            b"@n origin 10.0.0.\x1b[31m1",
        ]
    )

    facts = facts_from(0, parse_answers("n", output), 0.0, 1.0)

    assert facts.devices == 4
    assert facts.disks == (Disk("tmp", 10240, 20480, None),)
    assert (facts.load, facts.cpus, facts.memory_total, facts.clock) == (None, None, None, None)
    assert facts.origin is None
    (owner,) = facts.owners
    assert owner.pid == 13
    assert "\x1b" not in owner.command
    assert "\x07" not in owner.command


def test_thresholds_are_read_from_a_profile_and_other_keys_are_ignored() -> None:
    assert CheckThresholds.read({"disk_free_gib": 1, "straggler": 3.0}) == CheckThresholds(disk_free_gib=1.0)
