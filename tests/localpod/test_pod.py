"""Tests of the local pod as the other commands find it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pods import PodProcess, local_pod, log_in, pod_home, pod_process, running_pod
from tui.cloud.open_inventory import open_inventory
from tui.cloud.tpu.tpu_api import TpuApi
from tui.errors import TpuTuiError, UsageError
from tui.localpod import requirements
from tui.localpod.host import loopback_addresses
from tui.localpod.host.loopback_addresses import free_net
from tui.localpod.pod import LocalPod
from tui.localpod.requirements import GIB, check_memory, memory_available, memory_needed
from tui.pod.creation.slice_request import SliceRequest
from tui.settings import load

__all__ = ["local_pod", "pod_home", "pod_process"]

pytestmark = pytest.mark.timing

ANNOUNCED = ["token", "profile", "project", "zone", "slices", "tpu_api", "compute_api", "storage", "bucket", "pid"]


def test_the_announcement_holds_every_address(pod_process: PodProcess) -> None:
    announced = pod_process.announcement
    assert list(announced) == ANNOUNCED
    assert (announced["profile"], announced["project"], announced["zone"]) == ("local", "local", "local-a")
    assert announced["slices"] == ["local"]
    assert announced["pid"] == pod_process.pid
    assert announced["tpu_api"]["grpc"].startswith("127.0.0.1:")
    assert all(url.startswith("http://127.0.0.1:") for url in (announced["tpu_api"]["rest"], announced["storage"]))
    assert announced["bucket"].startswith("gs://")


@pytest.mark.parametrize(("cores", "kind", "chips"), [(1, "v6e-1", 1), (4, "v4-8", 4), (8, "v3-8", 4)])
async def test_a_worker_has_as_many_chips_as_its_type(pod_home: Path, cores: int, kind: str, chips: int) -> None:
    """Otherwise a check, and so a launch, would report missing chips."""
    async with running_pod(pod_home, workers=1, cores=cores) as pod, log_in(pod) as connection:
        inventory = open_inventory(load({}))
        try:
            [found] = (await inventory.slices()).slices
        finally:
            await inventory.close()
        devices = (await connection.run("ls $(echo $TPU_TUI_DEVICES | tr : ' ')", check=True)).stdout.split()
    assert (found.accelerator_type, len(devices)) == (kind, chips)


async def test_the_profile_leads_to_workers_that_accept_logins(pod_home: Path) -> None:
    async with running_pod(pod_home, workers=4, cores=8, slices=2) as pod:
        settings = load({})
        assert settings.profile == "local"
        assert settings.runtime == "cpu"
        inventory = open_inventory(settings)
        try:
            listing = await inventory.slices()
            first = await inventory.host_keys(next(one for one in listing.slices if one.name == "local"))
        finally:
            await inventory.close()
        assert sorted(one.name for one in listing.slices) == ["local", "local-2"]
        assert (first.accelerator_type, len(first.workers), first.cores) == ("v3-32", 4, 32)
        hosted = pod.machines.workers("local")
        assert [(one.internal_ip, one.port, one.hostname) for one in first.workers] == [
            (one.address, one.port, one.hostname) for one in hosted
        ]
        assert [one.host_keys for one in first.workers] == [(one.host_key_public,) for one in hosted]
        async with log_in(pod, 1, "local-2") as connection:
            assert (await connection.run("echo $HOSTNAME")).stdout.strip() == pod.machines.workers("local-2")[
                1
            ].hostname


async def test_workers_have_addresses_of_their_own_and_the_same_port(local_pod: LocalPod) -> None:
    workers = local_pod.machines.workers("local")
    assert len({worker.address for worker in workers}) == 4
    assert len({worker.port for worker in workers}) == 1


async def test_two_pods_in_two_homes_are_independent(pod_home: Path, tmp_path: Path) -> None:
    async with running_pod(pod_home, workers=2) as one, running_pod(tmp_path / "other", workers=2) as two:
        addresses_of = [{worker.address for worker in pod.machines.workers("local")} for pod in (one, two)]
        assert not addresses_of[0] & addresses_of[1]
        await two.close()
        async with log_in(one) as connection:
            assert (await connection.run("true")).exit_status == 0
        assert (pod_home / "profiles" / "local.toml").exists()


async def test_a_second_pod_in_the_same_home_is_refused_with_the_first_ones_process_id(pod_home: Path) -> None:
    async with running_pod(pod_home) as pod:
        with pytest.raises(UsageError) as refused:
            await LocalPod(pod_home).start()
        assert str(pod.announcement()["pid"]) in refused.value.sentence
        assert (pod_home / "profiles" / "local.toml").exists()


async def test_a_start_that_fails_leaves_nothing(pod_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = LocalPod(pod_home)
    monkeypatch.setattr(loopback_addresses, "PORTS", ())
    with pytest.raises(TpuTuiError, match="no loopback addresses"):
        await pod.start()
    assert not pod.directory.exists()
    assert not (pod_home / "profiles" / "local.toml").exists()


def test_a_net_stays_claimed_while_its_workers_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_addresses, "_FIRST_NET", 253)
    monkeypatch.setattr(loopback_addresses, "_LAST_NET", 253)
    monkeypatch.setattr(loopback_addresses, "PORTS", (22345,))
    first = free_net(3)
    with pytest.raises(TpuTuiError, match="ports 22345 are in use"):
        free_net(3)
    first.close()
    free_net(3).close()


def test_more_workers_than_one_net_holds_also_use_the_next_net() -> None:
    net = free_net(loopback_addresses.HOSTS_PER_NET + 5)
    net.close()
    assert len({address for address, _ in net.addresses}) == loopback_addresses.HOSTS_PER_NET + 5


def test_a_port_in_use_on_every_address_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        taken = other.getsockname()[1]
        monkeypatch.setattr(loopback_addresses, "PORTS", (taken, 22346))
        net = free_net(2)
        net.close()
    assert {port for _, port in net.addresses} == {22346}


def test_a_system_with_one_loopback_address_gives_every_worker_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_addresses, "_PREFIX", "192.0")  # 192.0.2.0/24 is for documentation (RFC 5737)
    net = free_net(3)
    listeners = net.listeners()
    try:
        assert {address for address, _ in net.addresses} == {"127.0.0.1"}
        assert len({port for _, port in net.addresses}) == 3
    finally:
        for listener in listeners:
            listener.close()


def test_the_demos_memory_grows_with_its_cores() -> None:
    assert 4 * GIB < memory_needed(4, 1) < 8 * GIB
    assert memory_needed(4, 2) > 1.7 * memory_needed(4, 1)


def test_too_little_memory_is_reported_with_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "memory_available", lambda: 3 * GIB)
    with pytest.raises(TpuTuiError, match=r"3\.0 GiB are free") as refused:
        check_memory(4, 1)
    assert "--workers 2" in refused.value.remedy
    check_memory(2, 1)


def test_the_limit_of_a_cgroup_counts_if_it_is_lower(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:    8388608 kB\n")
    assert memory_available(tmp_path, tmp_path) == 8 * GIB
    (tmp_path / "self" / "cgroup").write_text("0::/job\n")
    (tmp_path / "job").mkdir()
    for name, text in {
        "memory.max": str(4 * GIB),
        "memory.current": str(3 * GIB),
        "memory.stat": f"anon 5\ninactive_file {GIB}\n",
    }.items():
        (tmp_path / "job" / name).write_text(text)
    assert memory_available(tmp_path, tmp_path) == 2 * GIB
    (tmp_path / "job" / "memory.max").write_text("max\n")
    assert memory_available(tmp_path, tmp_path) == 8 * GIB


async def test_on_another_system_the_error_names_an_alternative(
    pod_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="needs Linux") as refused:
        await LocalPod(pod_home).start()
    assert refused.value.remedy


async def test_more_workers_than_the_api_lists_are_refused_with_its_error(pod_home: Path) -> None:
    with pytest.raises(UsageError, match="local-1000 was not found"):
        await LocalPod(pod_home, workers=1000).start()
    assert not (pod_home / "profiles" / "local.toml").exists()


def test_the_module_that_checks_the_demos_memory_imports_no_ssh_and_no_google_library() -> None:
    code = "import sys, tui.localpod.requirements; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.decode()
    for heavy in ("asyncssh", "google", "grpc", "aiohttp", "cryptography", "textual"):
        assert f"'{heavy}'" not in names


async def test_a_slice_made_again_under_its_name_has_no_files_of_the_first(pod_home: Path) -> None:
    async with running_pod(pod_home, workers=1) as pod:
        api = TpuApi(load({}))
        try:
            for _ in range(2):
                wanted = SliceRequest(
                    "twice", "local-a", accelerator_type="v2-8", runtime_version="tpu-ubuntu2204-base"
                )
                async for _step in api.create(wanted):
                    pass
                async with log_in(pod, 0, "twice") as connection:
                    assert (await connection.run("cat note 2>/dev/null; echo kept > note")).stdout == ""
                async for _step in api.lifecycle.delete("local-a", "twice"):
                    pass
        finally:
            await api.close()
