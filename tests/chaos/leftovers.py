"""Commands that create, queue or clean up, killed at any moment: `resources` lists and removes what they leave."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.cloud.tpu_v2 as tpu
import grpc
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from tests.cli.commands import Shell
from tests.localpod.api_clients import bearer
from tests.waiting import wait_until

DEADLINE_S = 120.0
CLEAN_EVERY = 10
"""Rounds after which everything is removed."""
TYPE = ("--type", "v2-8", "--version", "tpu-ubuntu2204-base")
PARENT = "projects/local/locations/local-a"
OWN = ("created-by", "tpu-tui")
COLLECTIONS = {
    "instanceGroupManagers": "group",
    "instanceTemplates": "template",
    "resourcePolicies": "policy",
    "disks": "disk",
}
"""The aggregated lists of Compute Engine, and the kinds of their rows."""
IMAGE = ("--image-family", "debian-12", "--image-project", "debian-cloud")
USER_VMS = ("--size", "2", "--machine-type", "n1-standard-16")
SHAPES = {
    "user VMs": (*USER_VMS, *IMAGE),
    "slice": ("--machine-type", "ct6e-standard-4t", "--topology", "2x4", *IMAGE),
    "image": (*USER_VMS, "--image-from", "prepared", "--yes"),
}
"""Options of groups: user VMs, one slice with a workload policy, and user VMs from the disk of a prepared one."""
PREPARED = {
    "name": "prepared",
    "machineType": "zones/local-a/machineTypes/n1-standard-16",
    "disks": [{"boot": True, "initializeParams": {"diskSizeGb": "10"}}],
    "networkInterfaces": [{"network": "global/networks/default"}],
}
"""A VM whose disk becomes an image, and stays."""
Found = frozenset[tuple[str, str]]
"""Kinds and names of resources."""


class LeftoverHunt:
    """A local pod, a shell on its machine, and Google's own clients, which list what exists."""

    def __init__(self, home: Path, announced: dict[str, Any], rng: random.Random) -> None:
        self.shell = Shell(home)
        self._errors = home / "errors"
        self.killed: Counter[str] = Counter()
        self.left = 0
        """Rounds after which something of the killed command existed."""
        self._base = frozenset({("slice", "local")})
        """What exists without the commands."""
        self._rng = rng
        self._spans: dict[str, float] = {}
        self._count = 0
        self._channel = grpc.secure_channel(announced["tpu_api"]["grpc"], bearer(announced["token"]))
        self._tpu = tpu.TpuClient(transport=TpuGrpcTransport(channel=self._channel))
        self._compute = requests.Session()
        self._compute.headers["Authorization"] = f"Bearer {announced['token']}"
        self._compute_url = f"{announced['compute_api']}/compute/v1/projects/local"
        self._storage = storage.Client(
            project="local",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": announced["storage"]},
        )

    def close(self) -> None:
        """Close the clients."""
        self._channel.close()
        self._compute.close()
        self._storage.close()

    def truth(self) -> Found:
        """Return what exists according to Google's clients."""
        nodes = [("slice", one.name) for one in self._tpu.list_nodes(parent=PARENT)]
        queued = [("queued-resource", one.name) for one in self._tpu.list_queued_resources(parent=PARENT)]
        buckets = [("bucket", one.name) for one in self._storage.list_buckets() if OWN in one.labels.items()]
        found = [*nodes, *queued, *buckets, *self._compute_truth()]
        return frozenset((kind, name.rpartition("/")[2]) for kind, name in found)

    def _compute_truth(self) -> Iterator[tuple[str, str]]:
        for collection, kind in COLLECTIONS.items():
            scopes = self._compute.get(f"{self._compute_url}/aggregated/{collection}").json().get("items", {})
            yield from ((kind, row["name"]) for scope in scopes.values() for row in scope.get(collection, ()))
        images = self._compute.get(f"{self._compute_url}/global/images").json().get("items", ())
        yield from (("image", row["name"]) for row in images)

    def prepare_vm(self) -> None:
        """Create the VM of which images are made."""
        made = self._compute.post(f"{self._compute_url}/zones/local-a/instances", json=PREPARED)
        assert made.ok, made.text
        path = f"{self._compute_url}/zones/local-a/instances/prepared"
        wait_until(lambda: self._compute.get(path).json().get("status") == "RUNNING", "the prepared VM runs")
        self._base = self.truth()

    def round_of_group(self) -> None:
        """Kill the deletion of a group at a random moment, and assert that its repetition leaves nothing."""
        self._count += 1
        shape = self._rng.choice(list(SHAPES))
        name = f"group-{self._count}"
        delete = ("groups", "delete", f"local-a/{name}", "--yes")
        made = self.shell.call("--profile", "local", "groups", "create", name, *SHAPES[shape])
        assert made.code == 0, made.errors
        whole = self.truth()
        began = time.monotonic()
        process = self._start_words(*delete)
        span = self._spans.get("delete")
        if span is None:
            assert process.wait() == 0, self._errors.read_text()
            self._spans["delete"] = time.monotonic() - began
        else:
            time.sleep(self._rng.uniform(0, span))
            process.kill()
            process.wait()
            self.killed[shape] += 1
            self.left += self.truth() != whole
        again = self.shell.call("--profile", "local", *delete)
        assert again.code == 0 or (again.code == 2 and "no such group" in again.errors), again.errors
        assert self.truth() == self._base, f"left of {name}: {sorted(self.truth() - self._base)}"

    def listed(self) -> Found:
        """Return what `resources` lists."""
        answer = self.shell.call("--profile", "local", "resources", "--json")
        assert answer.code == 0, answer.errors
        return frozenset((row["kind"], row["name"]) for row in answer.document)

    def round(self) -> None:
        """Kill one command at a random moment, and compare the lists while nothing changes between them."""
        self._count += 1
        action = self._rng.choice(("create", "queue", "bucket", "group", "group slice", "clean"))
        if action not in self._spans:
            self._spans[action] = self._timed(action)
            self.compare()
        before = self.truth()
        process = self._start(action)
        time.sleep(self._rng.uniform(0, self._spans[action]))
        process.kill()
        process.wait()
        self.killed[action] += 1
        self.left += self.truth() != before
        self.compare()
        if self._count % CLEAN_EVERY == 0:
            self.clean()

    def compare(self) -> None:
        """Check that `resources` lists exactly what exists."""
        end = time.monotonic() + DEADLINE_S
        while True:
            before, rows, after = self.truth(), self.listed(), self.truth()
            if before == after:
                assert rows == after
                return
            assert time.monotonic() < end, "the resources keep changing"

    def clean(self) -> None:
        """Check that `--unused` removes everything that the commands left, and nothing else."""
        end = time.monotonic() + DEADLINE_S
        while self.truth() != self._base:
            assert time.monotonic() < end, f"not removed: {sorted(self.truth())}"
            self.shell.call("--profile", "local", "resources", "delete", "--unused", "--yes")

    def _timed(self, action: str) -> float:
        """Return the seconds that a command takes when it is not killed."""
        began = time.monotonic()
        assert self._start(action).wait() == 0, self._errors.read_text()
        return time.monotonic() - began

    def _start(self, action: str) -> subprocess.Popen[bytes]:
        name = f"{action[:6].strip()}-{self._count}-{len(self._spans)}-{self._rng.randrange(1 << 20):x}"
        words = {
            "create": ("slices", "create", name, *TYPE),
            "queue": ("slices", "create", name, *TYPE, "--queued", "--nodes", "2"),
            "bucket": ("buckets", "create", f"gs://{name}", "--for", "local"),
            "group": ("groups", "create", name, *SHAPES["user VMs"]),
            "group slice": ("groups", "create", name, *SHAPES["slice"]),
            "clean": ("resources", "delete", "--unused", "--yes"),
        }[action]
        return self._start_words(*words)

    def _start_words(self, *words: str) -> subprocess.Popen[bytes]:
        with self._errors.open("wb") as errors:
            return self.shell.start("--profile", "local", *words, stdout=subprocess.DEVNULL, stderr=errors)
