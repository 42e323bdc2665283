import pytest

from tui.pod import accelerator


@pytest.mark.parametrize(
    ("name", "workers", "devices", "chips"),
    [
        ("v2-8", 1, 8, 4),
        ("v3-8", 1, 8, 4),
        ("v3-32", 4, 32, 16),
        ("v2-512", 64, 512, 256),
        ("v4-8", 1, 4, 4),
        ("v4-32", 4, 16, 16),
        ("v5p-2048", 256, 1024, 1024),
        ("v5litepod-1", 1, 1, 1),
        ("v5litepod-8", 1, 8, 8),
        ("v5litepod-16", 4, 16, 16),
        ("v6e-8", 1, 8, 8),
        ("v6e-256", 64, 256, 256),
        ("tpu7x-8", 1, 8, 4),
        ("tpu7x-128", 16, 128, 64),
    ],
)
def test_each_generation_counts_what_its_number_counts(name: str, workers: int, devices: int, chips: int) -> None:
    parsed = accelerator.parse(name)
    assert parsed is not None
    assert (parsed.workers, parsed.devices, parsed.chips) == (workers, devices, chips)
    assert parsed.devices_per_worker * workers == devices


@pytest.mark.parametrize("name", ["", "v3", "v3-", "v3-0", "v9-8", "tpu9-64", "v3-32-x", "local-4"])
def test_a_type_whose_arithmetic_is_not_known_is_not_guessed(name: str) -> None:
    assert accelerator.parse(name) is None


@pytest.mark.parametrize(("name", "gib"), [("v2-8", 8), ("v3-8", 16), ("v5p-8", 95), ("v6e-8", 32), ("tpu7x-8", 96)])
def test_memory_is_that_of_a_device_and_not_of_a_chip(name: str, gib: int) -> None:
    parsed = accelerator.parse(name)
    assert parsed is not None
    assert parsed.hbm_gib == gib


@pytest.mark.parametrize(
    ("machine_type", "vms", "name", "chips", "devices_per_worker"),
    [
        ("tpu7x-standard-4t", 1, "tpu7x-8", 4, 8),
        ("tpu7x-standard-4t", 16, "tpu7x-128", 64, 8),
        ("ct6e-standard-4t", 2, "v6e-8", 8, 4),
        ("ct6e-standard-8t", 1, "v6e-8", 8, 8),
        ("ct5p-hightpu-4t", 4, "v5p-32", 16, 4),
        ("ct5lp-hightpu-1t", 1, "v5litepod-1", 1, 1),
    ],
)
def test_machines_of_compute_engine_form_a_type(
    machine_type: str, vms: int, name: str, chips: int, devices_per_worker: int
) -> None:
    formed = accelerator.of_machines(machine_type, vms)
    assert formed is not None
    assert (formed.name, formed.chips, formed.workers) == (name, chips, vms)
    assert formed.devices_per_worker == devices_per_worker
    named = accelerator.parse(name)
    assert named is not None
    assert (named.chips, named.devices) == (formed.chips, formed.devices)


@pytest.mark.parametrize(
    ("machine_type", "is_tpu"),
    [("n1-standard-16", False), ("ct9-standard-4t", True), ("tpu7x-standard-4t", True), ("c4-standard-4", False)],
)
def test_machines_without_a_known_generation_form_no_type(machine_type: str, is_tpu: bool) -> None:
    assert accelerator.is_tpu_machine(machine_type) == is_tpu
    assert (accelerator.of_machines(machine_type, 1) is not None) == (machine_type == "tpu7x-standard-4t")
    assert accelerator.of_machines("tpu7x-standard-4t", 0) is None


@pytest.mark.parametrize(
    ("machine_type", "topology", "vms"),
    [
        ("tpu7x-standard-4t", "2x2x1", 1),
        ("tpu7x-standard-4t", "2x2x4", 4),
        ("ct6e-standard-4t", "2x4", 2),
        ("ct6e-standard-8t", "2x4", 1),
        ("ct6e-standard-8t", "2x2", None),
        ("tpu7x-standard-4t", "2x2x", None),
        ("n1-standard-4", "2x2x1", None),
    ],
)
def test_a_topology_needs_whole_machines(machine_type: str, topology: str, vms: int | None) -> None:
    assert accelerator.vms_of_topology(machine_type, topology) == vms
