"""Tests that tpu-tui, gcloud and Google's client have equal results in each scenario of slices on a local pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.protobuf.json_format import MessageToDict

from tests.cli.commands import Shell
from tests.localpod.api_clients import PLACE, named, until
from tests.localpod.gcloud import QUEUED, TRACKS, VM, Gcloud, with_gcloud
from tests.localpod.gcloud_trials import Drive, Trial, is_done, plain, same_results, trial
from tests.pods import running_pod
from tui.localpod.pod import LocalPod
from tui.settings import save_profile

pytestmark = [pytest.mark.gcloud, *with_gcloud, pytest.mark.parametrize("track", TRACKS)]

Track = tuple[str, ...]
VERSION = "tpu-ubuntu2204-base"
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
DISK = "projects/local/zones/local-a/disks/data"
WISH = f"{PLACE}/queuedResources/wish"


# ── create ───────────────────────────────────────────────────────────────────────────────────────

TYPE = {"accelerator_type": "v2-8"}
CREATIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "by type": (("--accelerator-type=v2-32",), {"accelerator_type": "v2-32"}),
    "by topology": (("--type=v4", "--topology=2x2x2"), {"accelerator_config": {"type_": "V4", "topology": "2x2x2"}}),
    "networks": (
        ("--network=net", "--subnetwork=sub", "--internal-ips"),
        {"network_config": {"network": "net", "subnetwork": "sub", "enable_external_ips": False}},
    ),
    "account": (
        ("--service-account=a@b.c", f"--scopes={CLOUD_PLATFORM}"),
        {"service_account": {"email": "a@b.c", "scope": [CLOUD_PLATFORM]}},
    ),
    "tags": (("--tags=web,lab",), {"tags": ["web", "lab"]}),
    "labels": (("--labels=team=vision,stage=test",), {"labels": {"team": "vision", "stage": "test"}}),
    "metadata": (("--metadata=^;^list=a,b;other=c",), {"metadata": {"list": "a,b", "other": "c"}}),
    "metadata from a file": (("--metadata-from-file=key=FILE",), {"metadata": {"key": "two\nlines\n"}}),
    "data disk": (
        (f"--data-disk=source={DISK},mode=read-only",),
        {"data_disks": [{"source_disk": DISK, "mode": "READ_ONLY"}]},
    ),
    "spot": (("--spot",), {"scheduling_config": {"spot": True}}),
    "preemptible": (("--preemptible",), {"scheduling_config": {"preemptible": True}}),
    "reserved": (("--reserved",), {"scheduling_config": {"reserved": True}}),
    "description": (("--description=two words",), {"description": "two words"}),
    "range": (("--range=10.0.0.0/29",), {"cidr_block": "10.0.0.0/29"}),
    "secure boot": (("--shielded-secure-boot",), {"shielded_instance_config": {"enable_secure_boot": True}}),
}
"""The options of gcloud's command, which are also those of tpu-tui, and the fields that they set."""


@pytest.mark.parametrize("case", CREATIONS)
async def test_a_slice_is_created_with(tmp_path: Path, track: Track, case: str) -> None:
    (tmp_path / "value").write_text("two\nlines\n")
    given, fields = CREATIONS[case]
    has_type = "accelerator_type" in fields or "accelerator_config" in fields
    options = [one.replace("FILE", str(tmp_path / "value")) for one in given]
    options += [f"--version={VERSION}", *(() if has_type else ("--accelerator-type=v2-8",))]
    external = {"network_config": {"enable_external_ips": True}}
    node = {"runtime_version": VERSION, **external, **({} if has_type else TYPE), **fields}

    (made,) = await same_results(
        tmp_path,
        lambda one: one.did("slices", "create", "pod", *options),
        lambda one: one.gcloud.json(*track, *VM, "create", "pod", *options),
        lambda one: is_done(one, "create_node", parent=PLACE, node_id="pod", node=node),
    )

    assert (made["name"], made["state"]) == (named("pod"), "READY")


# ── list, describe, stop, start, delete ──────────────────────────────────────────────────────────


def with_slice(kind: str) -> Drive:
    async def create(one: Trial) -> None:
        node = {"accelerator_type": kind, "runtime_version": VERSION, "labels": {"team": "vision"}}
        await is_done(one, "create_node", parent=PLACE, node_id="pod", node=node)

    return create


async def test_slices_are_listed_and_described(tmp_path: Path, track: Track) -> None:
    async with trial(tmp_path) as one:
        await with_slice("v2-32")(one)
        described = (await one.did("slices", "describe", "pod"))["resource"]
        by_gcloud = await one.gcloud.json(*track, *VM, "describe", "pod")
        library = MessageToDict(tpu.Node.pb(await one.client("get_node", name=named("pod"))))
        assert plain(described) == plain(by_gcloud) == plain(library)
        listed = await one.gcloud.json(*track, *VM, "list")
        rows = await one.did("slices")
        assert [(row["name"], row["state"], row["accelerator_type"]) for row in rows] == [
            (row["name"].rpartition("/")[2], row["state"], row["acceleratorType"]) for row in listed
        ]


@pytest.mark.parametrize("verb", ["stop", "start"])
async def test_a_single_host_slice_is_stopped_and_started(tmp_path: Path, track: Track, verb: str) -> None:
    async def prepare(one: Trial) -> None:
        await with_slice("v2-8")(one)
        if verb == "start":
            await is_done(one, "stop_node", name=named("pod"))

    (pod,) = await same_results(
        tmp_path,
        lambda one: one.did("slices", verb, "pod", "--yes"),
        lambda one: one.gcloud.json(*track, *VM, verb, "pod"),
        lambda one: is_done(one, f"{verb}_node", name=named("pod")),
        prepare=prepare,
    )

    assert pod["state"] == ("READY" if verb == "start" else "STOPPED")


async def test_a_slice_of_several_hosts_cannot_be_stopped(tmp_path: Path, track: Track) -> None:
    async def tpu_tui(one: Trial) -> None:
        answer = await one.tpu_tui("slices", "stop", "pod", "--yes")
        assert (answer.code, "slices of one worker only" in answer.errors) == (2, True)

    async def gcloud(one: Trial) -> None:
        code, _, errors = await one.gcloud(*track, *VM, "stop", "pod")
        assert (code, "only available with single TPU nodes" in errors) == (1, True)

    async def library(one: Trial) -> None:
        with pytest.raises(GoogleAPICallError, match="only available with single TPU nodes"):
            await one.client("stop_node", name=named("pod"))

    (pod,) = await same_results(tmp_path, tpu_tui, gcloud, library, prepare=with_slice("v2-32"))
    assert pod["state"] == "READY"


async def test_a_slice_is_deleted(tmp_path: Path, track: Track) -> None:
    left = await same_results(
        tmp_path,
        lambda one: one.did("slices", "delete", "pod", "--yes"),
        lambda one: one.gcloud.json(*track, *VM, "delete", "pod"),
        lambda one: is_done(one, "delete_node", name=named("pod")),
        prepare=with_slice("v2-32"),
    )
    assert left == []


# ── queued resources ─────────────────────────────────────────────────────────────────────────────

PAIR = ("--node-count=2", "--node-prefix=crew", "--accelerator-type=v2-8", f"--runtime-version={VERSION}")


async def queue_pair(one: Trial) -> None:
    external = {"network_config": {"enable_external_ips": True}}
    node = {"accelerator_type": "v2-8", "runtime_version": VERSION, **external}
    params = {"node_count": 2, "node_id_prefix": "crew"}
    spec = {"parent": PLACE, "node": node, "multislice_params": params}
    wish = {"tpu": {"node_spec": [spec]}, "spot": {}}
    fields = {"parent": PLACE, "queued_resource_id": "wish", "queued_resource": wish}
    await is_done(one, "create_queued_resource", **fields)
    await is_active(one)


async def is_active(one: Trial) -> None:
    active = tpu.QueuedResourceState.State.ACTIVE

    async def active_now() -> bool:
        return (await one.client("get_queued_resource", name=WISH)).state.state == active

    await until(active_now)


async def test_slices_are_queued(tmp_path: Path, track: Track) -> None:
    async def gcloud(one: Trial) -> None:
        await one.gcloud.json(*track, *QUEUED, "create", "wish", *PAIR, "--spot")
        await is_active(one)

    first, second, wish = await same_results(
        tmp_path, lambda one: one.did("slices", "create", "wish", "--queued", *PAIR, "--spot"), gcloud, queue_pair
    )

    assert [first["name"], second["name"], wish["name"]] == [named("crew-0"), named("crew-1"), WISH]


async def test_queued_resources_are_listed_and_described(tmp_path: Path, track: Track) -> None:
    async with trial(tmp_path) as one:
        await queue_pair(one)
        (row,) = await one.did("slices", "queued")
        (listed,) = await one.gcloud.json(*track, *QUEUED, "list")
        described = await one.gcloud.json(*track, *QUEUED, "describe", "wish")
        library = MessageToDict(tpu.QueuedResource.pb(await one.client("get_queued_resource", name=WISH)))
        names = {"multiNodeParams": "multisliceParams"}  # of the alpha API
        for document in (listed, described):
            (spec,) = document["tpu"]["nodeSpec"]
            document["tpu"]["nodeSpec"] = [{names.get(key, key): value for key, value in spec.items()}]
            assert plain(document) == plain(library)
        assert (row["name"], row["state"], row["nodes"]) == ("wish", library["state"]["state"], ["crew-0", "crew-1"])


async def test_a_queued_resource_is_reset(tmp_path: Path, track: Track) -> None:
    async def prepare(one: Trial) -> None:
        await queue_pair(one)
        one.hosts.kill("crew-1", 0)

    async def tpu_tui(one: Trial) -> None:
        await one.did("slices", "reset", "wish", "--yes")
        await is_active(one)

    async def gcloud(one: Trial) -> None:
        await one.gcloud.json(*track, *QUEUED, "reset", "wish")
        await is_active(one)

    async def library(one: Trial) -> None:
        await is_done(one, "reset_queued_resource", name=WISH)
        await is_active(one)

    *nodes, wish = await same_results(tmp_path, tpu_tui, gcloud, library, prepare=prepare)
    assert [node["state"] for node in nodes] == ["READY", "READY"]
    assert wish["state"]["state"] == "ACTIVE"


async def test_a_queued_resource_is_deleted_by_force(tmp_path: Path, track: Track) -> None:
    left = await same_results(
        tmp_path,
        lambda one: one.did("slices", "delete", "wish", "--queued", "--force", "--yes"),
        lambda one: one.gcloud.json(*track, *QUEUED, "delete", "wish", "--force"),
        lambda one: is_done(one, "delete_queued_resource", name=WISH, force=True),
        prepare=queue_pair,
    )
    assert left == []


# ── the workers: ssh, exec, files ────────────────────────────────────────────────────────────────


@pytest.fixture
async def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalPod]:
    monkeypatch.setenv("TPU_TUI_HOME", str(tmp_path))
    async with running_pod(tmp_path, workers=2) as pod:
        yield pod


@pytest.mark.parametrize("os_login", [False, True], ids=["metadata keys", "OS Login"])
async def test_a_command_runs_on_every_worker_and_a_file_is_fetched(
    pod: LocalPod, tmp_path: Path, track: Track, os_login: bool
) -> None:
    """gcloud's first ssh makes the key and adds it to the metadata or the profile; tpu-tui uses that key."""
    run = Gcloud(tmp_path, pod.service.rest_port, pod.token)
    run.environment["CLOUDSDK_CORE_ACCOUNT"] = "ada@example.com"
    if os_login:
        pod.compute.networks.metadata["enable-oslogin"] = "TRUE"
    port = str(pod.machines.workers("local")[0].port)
    words = (*track, *VM, "ssh", "local", "--worker=all", "--command=echo $HOSTNAME | tee out.txt", "--", "-p", port)
    code, out, errors = await run(*words)
    assert code == 0, errors

    shell = Shell(tmp_path)
    shell.environ["CLOUDSDK_CORE_ACCOUNT"] = "ada@example.com"
    profile = {name: value for name, value in pod.profile().items() if name not in ("user", "identity", "local")}
    save_profile(tmp_path, "own", profile)
    done = await asyncio.to_thread(shell.run, "--profile", "own", "exec", "local", "--json", "--", "cat out.txt")
    assert done.code == 0, done.errors
    rows = [json.loads(line) for line in done.out.splitlines()] if done.out.startswith("{") else done.document
    hostnames = sorted(worker.hostname for worker in pod.machines.workers("local"))
    assert sorted("".join(row["stdout"] for row in rows).split()) == hostnames
    assert sorted(out.splitlines()[-2:]) == hostnames, "the lines before them are ssh-keygen's"
    argv = (await asyncio.to_thread(shell.run, "--profile", "own", "ssh", "local", "--json")).document["argv"]
    assert (argv[argv.index("-l") + 1] == "ada_example_com") == os_login

    by_gcloud, by_tpu_tui = tmp_path / "by_gcloud.txt", tmp_path / "by_tpu_tui"
    code, _, errors = await run(
        *track, *VM, "scp", "local:out.txt", str(by_gcloud), "--scp-flag=-P", f"--scp-flag={port}"
    )
    assert code == 0, errors
    fetched = await asyncio.to_thread(
        shell.run, "--profile", "own", "fetch", "local", "out.txt", "--worker", "0", "--to", str(by_tpu_tui), "--json"
    )
    assert fetched.code == 0, fetched.errors
    (row,) = fetched.document
    assert Path(by_tpu_tui / row["path"]).read_bytes() == by_gcloud.read_bytes()
