"""The specification of a launch: a keeper's input, its validation, and its description for a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tui.errors import UsageError
from tui.pod.job_options import OPTIONS
from tui.pod.run import Run
from tui.pod.secrets import mask_secrets
from tui.pod.slice import Slice
from tui.pod.worker import MOST_PORT
from tui.pod.xrt_cluster import SERVER_PORT
from tui.procs.file_limit import check_file_limit
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.job_script import check_docker, check_job, job_environment, job_text, xrt_cluster
from tui.runs.launch.phases import PhaseTimeouts
from tui.ssh.config.access import Access
from tui.ssh.sync.source_tree import read_tree
from tui.ssh.sync.upload import code_directory
from tui.text.printable import format_count


@dataclass(frozen=True)
class Preflight:
    """How the keeper checks the workers before it launches (`tui.runs.launch.preflight`).

    `slice` holds the fields of the slice that a run does not record, `thresholds` are a profile's. With `versions`,
    each worker's interpreter is queried for the versions of the job's packages.
    """

    slice: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    versions: bool = False

    def slice_of(self, run: Run) -> Slice:
        """Return the slice of a run with what the checks need."""
        return Slice(
            run.slice,
            zone=run.zone,
            project=run.project,
            accelerator_type=run.accelerator_type,
            tpu_node=run.tpu_node,
            node_endpoints=run.node_endpoints,
            workers=run.workers,
            **self.slice,
        )


@dataclass(frozen=True)
class LaunchSpec:
    """Everything a keeper needs to launch a run. `env` holds the secret values: it travels through pipes only."""

    run: Run = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    access: Access = field(repr=False)
    sync: Path | None = None
    keeper_timeouts: KeeperTimeouts = field(default_factory=KeeperTimeouts)
    preflight: Preflight | None = None
    """How the workers are checked before the launch; None if they are not."""
    timeouts: PhaseTimeouts = field(default_factory=PhaseTimeouts)

    @property
    def note(self) -> str | None:
        """Return a choice made for the run that the user should know about, if any."""
        return xrt_cluster(self.run).describe_unknown_type() if self.run.job.runtime == "xrt" else None

    def to_json(self) -> dict[str, Any]:
        """Return the document that goes to a keeper's standard input, and nowhere else."""
        return {
            "run": {**self.run.to_json(), "argv": list(self.run.job.argv)},
            "env": dict(self.env),
            "access": self.access.to_json(),
            "sync": str(self.sync.absolute()) if self.sync else None,  # the keeper runs in another directory
            "patience": asdict(self.keeper_timeouts),
            "timeouts": asdict(self.timeouts),
            "preflight": asdict(self.preflight) if self.preflight else None,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchSpec:
        """Parse the document of `to_json`. Raises ValueError for anything else."""
        sync = document.get("sync")
        return cls(
            run=Run.from_json(document["run"]),
            env=dict(document["env"]),
            access=Access.from_json(document["access"]),
            sync=Path(sync) if sync else None,
            keeper_timeouts=KeeperTimeouts(**document.get("patience", {})),
            timeouts=PhaseTimeouts(**document.get("timeouts", {})),
            preflight=Preflight(**document["preflight"]) if document.get("preflight") else None,
        )


def check_spec(spec: LaunchSpec) -> None:
    """Raise UsageError for a launch that could not succeed on any worker."""
    job = spec.run.job
    check_job(job.argv, spec.env, job.runtime)
    check_docker(job)
    if not 0 < job.tpuvm_server_port <= MOST_PORT:
        raise UsageError(f"--tpuvm-server-port {job.tpuvm_server_port} is not a port", remedy=f"1 to {MOST_PORT}")
    if job.tpuvm_server_port != SERVER_PORT and job.runtime != "xrt":
        raise UsageError("--tpuvm-server-port needs the XRT runtime", remedy="add --runtime xrt")
    if spec.run.tpu_node and job.runtime == "pjrt":
        raise UsageError(
            f"{spec.run.slice} drives TPU Node {spec.run.tpu_node}, which PJRT cannot use",
            remedy="add --runtime xrt (torch_xla up to 2.0), or none for other libraries",
        )
    if spec.run.tpu_node and not spec.run.node_endpoints and job.runtime == "xrt":
        raise UsageError(
            f"TPU Node {spec.run.tpu_node}, which {spec.run.slice} drives, does not exist",
            remedy=f"tpu-tui slices create {spec.run.tpu_node} --architecture node makes it",
        )
    if not spec.run.workers:
        raise UsageError(f"{spec.run.slice} has no workers to launch on")
    if job.on_failure not in OPTIONS["on_failure"].choices:
        raise UsageError(f"no failure policy {job.on_failure!r}", remedy="stop or leave")
    check_file_limit(len(spec.run.workers), through_iap=spec.access.route == "iap")


def dry_run(spec: LaunchSpec) -> str:
    """Return exactly what would run on the first worker, and what differs on the others; secret values are masked."""
    check_spec(spec)
    output: list[str] = [f"run {spec.run.id} on {spec.run.slice}, {format_count(len(spec.run.workers), 'worker')}"]
    output += [f"note: {spec.note}"] if spec.note else []
    code = None
    if spec.sync:
        code = code_directory(spec.run.run_root, read_tree(spec.sync).hash)
        output.append(f"sync {spec.sync} to {code} on every worker")
    first: list[str] = []
    run, env = spec.run.without_secrets(), mask_secrets(spec.env, spec.run.job.env_by_name)
    first_env = job_environment(run, run.workers[0], env)
    for worker in spec.run.workers:
        lines = [*job_text(run, worker, env, code).splitlines(), 'exec "$@"']
        own_lines = [line for line in lines if line not in first]
        missing = [name for name in first_env if name not in job_environment(run, worker, env)]
        without = f", without {', '.join(missing)}" if missing else ""
        note = f" (the rest as on the first{without})" if first else ""
        output += [f"worker {worker.index} {worker.name}{note}:", *(f"  {line}" for line in own_lines)]
        first = first or lines
    return "\n".join(output) + "\n"
