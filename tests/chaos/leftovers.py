"""Commands that create, queue or clean up, killed at any moment: `resources` lists and removes what they leave."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import google.cloud.tpu_v2 as tpu
import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from tests.cli.commands import Shell
from tests.localpod.api_clients import bearer

DEADLINE_S = 120.0
CLEAN_EVERY = 10
"""Rounds after which everything is removed."""
TYPE = ("--type", "v2-8", "--version", "tpu-ubuntu2204-base")
PARENT = "projects/local/locations/local-a"
OWN = ("created-by", "tpu-tui")
Found = frozenset[tuple[str, str]]
"""Kinds and names of resources."""


class LeftoverHunt:
    """A local pod, a shell on its machine, and Google's own clients, which list what exists."""

    def __init__(self, home: Path, announced: dict[str, Any], rng: random.Random) -> None:
        self.shell = Shell(home)
        self.killed: Counter[str] = Counter()
        self.left = 0
        """Rounds after which some resource of the killed command existed."""
        self._rng = rng
        self._spans: dict[str, float] = {}
        self._count = 0
        self._channel = grpc.secure_channel(announced["tpu_api"]["grpc"], bearer(announced["token"]))
        self._tpu = tpu.TpuClient(transport=TpuGrpcTransport(channel=self._channel))
        self._storage = storage.Client(
            project="local",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": announced["storage"]},
        )

    def close(self) -> None:
        """Close the clients."""
        self._channel.close()
        self._storage.close()

    def truth(self) -> Found:
        """Return what exists according to Google's clients."""
        nodes = [("slice", one.name) for one in self._tpu.list_nodes(parent=PARENT)]
        queued = [("queued-resource", one.name) for one in self._tpu.list_queued_resources(parent=PARENT)]
        buckets = [("bucket", one.name) for one in self._storage.list_buckets() if OWN in one.labels.items()]
        return frozenset((kind, name.rpartition("/")[2]) for kind, name in nodes + queued + buckets)

    def listed(self) -> Found:
        """Return what `resources` lists."""
        answer = self.shell.call("--profile", "local", "resources", "--json")
        assert answer.code == 0, answer.errors
        return frozenset((row["kind"], row["name"]) for row in answer.document)

    def round(self) -> None:
        """Kill one command at a random moment, and compare the lists while nothing changes between them."""
        self._count += 1
        action = self._rng.choice(("create", "queue", "bucket", "clean"))
        before = self.truth()
        span = self._spans.setdefault(action, self._timed(action))
        process = self._start(action)
        time.sleep(self._rng.uniform(0, span))
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
        while self.truth() != {("slice", "local")}:
            assert time.monotonic() < end, f"not removed: {sorted(self.truth())}"
            self.shell.call("--profile", "local", "resources", "delete", "--unused", "--yes")

    def _timed(self, action: str) -> float:
        """Return the seconds that a command takes when it is not killed."""
        began = time.monotonic()
        assert self._start(action).wait() == 0
        return time.monotonic() - began

    def _start(self, action: str) -> subprocess.Popen[bytes]:
        name = f"{action}-{self._count}-{len(self._spans)}-{self._rng.randrange(1 << 20):x}"
        words = {
            "create": ("slices", "create", name, *TYPE),
            "queue": ("slices", "create", name, *TYPE, "--queued", "--nodes", "2"),
            "bucket": ("buckets", "create", f"gs://{name}", "--for", "local"),
            "clean": ("resources", "delete", "--unused", "--yes"),
        }[action]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return self.shell.start("--profile", "local", *words, **quiet)
