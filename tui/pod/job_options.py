"""The options of a job, shared by launch request, run.json and launch form.

The command line's options, the launch form's fields and the checks of run.json are made from the fields' `Option`s.
To add an option, add a field here and use it in `tui.runs.launch.job_script`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tui.pod.secrets import mask_secrets, mask_urls
from tui.pod.xrt_cluster import SERVER_PORT
from tui.text.numbers import is_integer, is_number

DEFAULT_CONTAINER = "pytorchtpudistrunner"
"""xla_dist's name for a job's container."""
MOST_RESTARTS = 1_000_000
MOST_SECONDS = 1e9


class OptionKind(enum.Enum):
    """What values an option takes; the value of a kind describes them in errors about run.json."""

    TEXT = "a text or null"
    CHOICE = "a text"
    COUNT = f"an integer from 0 to {MOST_RESTARTS}"
    SECONDS = "a number of seconds"
    WORDS = "a list of texts"
    VARIABLES = "a table of texts"

    def accepts(self, value: Any) -> bool:
        """Return whether a value of run.json is of this kind."""
        if self is OptionKind.TEXT:
            return value is None or isinstance(value, str)
        if self is OptionKind.CHOICE:
            return isinstance(value, str)
        if self is OptionKind.COUNT:
            return is_integer(value, 0, MOST_RESTARTS)
        if self is OptionKind.SECONDS:
            return is_number(value, 0, MOST_SECONDS)
        if self is OptionKind.WORDS:
            return isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value)
        return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


@dataclass(frozen=True)
class Option:
    """How a field of `JobOptions` is set. A field without `help` has no option."""

    kind: OptionKind
    help: str = ""
    """The help text of the command line."""
    metavar: str | None = None
    placeholder: str = ""
    """What the launch form shows while the field is empty."""
    label: str = ""
    """What the launch form calls it, if not by its name."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The possible values, with their labels in the launch form."""

    def defaults_to(self, default: Any) -> Any:
        """Return the field of `JobOptions` that this option sets."""
        if isinstance(default, dict):
            return field(default_factory=dict, metadata={"option": self})
        return field(default=default, metadata={"option": self})


@dataclass(frozen=True)
class JobOptions:
    """What a job runs, where it runs on a worker, and what happens when it ends."""

    argv: tuple[str, ...] = Option(OptionKind.WORDS).defaults_to(())
    """The command and its arguments."""
    runtime: str = Option(
        OptionKind.CHOICE,
        "set variables for torch_xla (default: the profile's, else pjrt)",
        choices={
            "pjrt": "pjrt: torch_xla on TPU VMs",
            "cpu": "cpu: XLA without a TPU",
            "xrt": "xrt: torch_xla up to 2.0",
            "none": "none: no variables for it",
        },
    ).defaults_to("pjrt")
    workdir: str | None = Option(
        OptionKind.TEXT, "directory on the workers to start in", "D", "where the command runs"
    ).defaults_to(None)
    venv: str | None = Option(
        OptionKind.TEXT, "virtual environment on the workers to activate", "P", "a virtual environment there"
    ).defaults_to(None)
    conda_env: str | None = Option(
        OptionKind.TEXT, "conda environment to activate", "E", "a conda environment there"
    ).defaults_to(None)
    on_failure: str = Option(
        OptionKind.CHOICE,
        "what to do with the other workers when one fails (default: stop)",
        choices={"stop": "stop the other workers", "leave": "leave the others running"},
    ).defaults_to("stop")
    restarts: int = Option(
        OptionKind.COUNT, "relaunch up to N times after a failure (default: 0)", "N", "0: relaunches after a failure"
    ).defaults_to(0)
    grace: float = Option(
        OptionKind.SECONDS, "seconds between SIGTERM and SIGKILL (default: 30)", "S", "30: from SIGTERM to SIGKILL"
    ).defaults_to(30.0)
    on_end: tuple[str, ...] = Option(
        OptionKind.WORDS,
        "what to do when the run ends: report, report:gs://BUCKET/FOLDER, stop-slice, delete-slice or "
        "command:SHELL COMMAND; repeatable",
        "ACTION",
        "report, delete-slice, 'command:…'",
    ).defaults_to(())
    """What the launching machine does when the run has ended (`tui.runs.launch.on_end_actions`)."""
    docker_image: str | None = Option(
        OptionKind.TEXT,
        "run the command in a container of this image",
        "IMAGE",
        "a Docker image to run it in",
        "image",
    ).defaults_to(None)
    docker_container: str | None = Option(
        OptionKind.TEXT,
        f"the container's name (default: {DEFAULT_CONTAINER})",
        "NAME",
        DEFAULT_CONTAINER,
        "container",
    ).defaults_to(None)
    docker_run_flag: tuple[str, ...] = Option(
        OptionKind.WORDS,
        "option for `docker run`, e.g. --docker-run-flag=--shm-size=50GB; repeatable",
        "OPTION",
        "options, e.g. --shm-size=50GB",
        "docker run",
    ).defaults_to(())
    tpuvm_server_port: int = Option(
        OptionKind.COUNT,
        f"port of the XRT server on each worker, with --runtime xrt (default: {SERVER_PORT})",
        "PORT",
        f"{SERVER_PORT}: of the XRT server",
        "XRT port",
    ).defaults_to(SERVER_PORT)
    env: Mapping[str, str] = Option(
        OptionKind.VARIABLES,
        "environment variable for the job; without =V, taken from this shell (and hidden from `ps`); repeatable",
        "K[=V]",
    ).defaults_to({})
    env_by_name: tuple[str, ...] = Option(OptionKind.WORDS).defaults_to(())
    """Variables given by name only (`--env NAME`): their values are secret, whatever the name."""

    def without_secrets(self) -> JobOptions:
        """Return the options with secret values masked, as recorded."""
        argv = tuple(mask_urls(argument) for argument in self.argv)
        return replace(self, argv=argv, env=mask_secrets(self.env, self.env_by_name))

    def to_json(self) -> dict[str, Any]:
        """Return the options' part of run.json, secret values masked."""
        masked = self.without_secrets()
        document: dict[str, Any] = {}
        for name, option in OPTIONS.items():
            value = getattr(masked, name)
            if option.kind is OptionKind.WORDS:
                value = list(value)
            document[name] = dict(value) if option.kind is OptionKind.VARIABLES else value
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> JobOptions:
        """Read the options' part of run.json. Raises ValueError that names a field of the wrong kind."""
        values: dict[str, Any] = {}
        for name, option in OPTIONS.items():
            value = document.get(name, DEFAULTS[name])
            if name == "on_end":
                value = value or ()
            if not option.kind.accepts(value):
                raise ValueError(f"not a run.json: {name} should be {option.kind.value}")
            values[name] = tuple(value) if option.kind is OptionKind.WORDS else value
        return cls(**values)


OPTIONS: Mapping[str, Option] = {item.name: item.metadata["option"] for item in fields(JobOptions)}
"""Every field's `Option`, by the field's name."""
LAUNCH_OPTIONS: Mapping[str, Option] = {name: option for name, option in OPTIONS.items() if option.help}
"""The options of the `launch` command, which are also the fields of the launch form."""
DEFAULTS: Mapping[str, Any] = vars(JobOptions())
"""The default of each field."""
