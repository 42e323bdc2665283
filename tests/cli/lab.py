"""SSH machines without a cloud: real OpenSSH servers, a hosts file that names them, and the key to them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Answer, Shell
from tests.sshd import OpensshWorker


class Lab:
    """Machines that a terminal knows as the slice `lab`, through options or through a profile.

    gcloud has a default zone, which does not concern these machines.
    """

    def __init__(self, shell: Shell, workers: list[OpensshWorker], directory: Path) -> None:
        self.shell = shell
        shell.environ["CLOUDSDK_COMPUTE_ZONE"] = "europe-west4-a"
        self.workers = workers
        self.hosts = directory / "lab.txt"
        lines = [f"{one.user}@{one.host}:{one.port}\n" for one in workers]
        self.hosts.write_text(f"# {len(workers)} machines\n" + "".join(lines))

    def run(self, *words: str, host_keys: str = "accept-new") -> Answer:
        """Run a command whose options name the machines."""
        return self.shell.run(*self._options(host_keys), *words)

    def call(self, *words: str, host_keys: str = "accept-new") -> Answer:
        """Run such a command in this process."""
        return self.shell.call(*self._options(host_keys), *words)

    def _options(self, host_keys: str) -> tuple[str, ...]:
        return ("--hosts", str(self.hosts), "--identity", str(self.workers[0].identity), "--host-keys", host_keys)

    def write_profile(self, **thresholds: float) -> None:
        """Name the machines in the default profile; the thresholds not given here are always satisfied."""
        easy = {"load_per_cpu": 1e6, "disk_free_gib": 0.0, "disk_full_gib": 0.0, "memory_free_share": 0.0}
        lines = [
            f'hosts = "{self.hosts}"',
            f'identity = "{self.workers[0].identity}"',
            'host_keys = "accept-new"',
            "runtime = 'none'",
            "[thresholds]",
            *(f"{name} = {value}" for name, value in {**easy, **thresholds}.items()),
        ]
        profile = self.shell.home / "profiles" / "default.toml"
        profile.parent.mkdir(parents=True, exist_ok=True)
        profile.write_text("\n".join(lines) + "\n")

    def launch(self, *words: str) -> Answer:
        """Launch a short command with the profile's settings."""
        return self.shell.call("launch", "lab", *words, "--", "echo", "hello")

    @property
    def runs(self) -> list[str]:
        """The ids of the runs in the terminal's home."""
        return [run["run"] for run in self.shell.call("runs", "--offline", "--json").document]
