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
def test_the_number_of_a_type_counts_what_its_generation_counts(
    name: str, workers: int, devices: int, chips: int
) -> None:
    parsed = accelerator.parse(name)
    assert parsed is not None
    assert (parsed.workers, parsed.devices, parsed.chips) == (workers, devices, chips)
    assert parsed.devices_per_worker * workers == devices


@pytest.mark.parametrize("name", ["", "v3", "v3-", "v3-0", "v9-8", "tpu9-64", "v3-32-x", "local-4"])
def test_the_size_of_an_unknown_type_is_not_guessed(name: str) -> None:
    assert accelerator.parse(name) is None


@pytest.mark.parametrize(("name", "gib"), [("v2-8", 8), ("v3-8", 16), ("v5p-8", 95), ("v6e-8", 32), ("tpu7x-8", 96)])
def test_memory_is_that_of_a_device_and_not_of_a_chip(name: str, gib: int) -> None:
    parsed = accelerator.parse(name)
    assert parsed is not None
    assert parsed.hbm_gib == gib
