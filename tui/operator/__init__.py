"""Everything tpu-tui can do, in one place, for the console and the commands.

They use `Operator` and the names below: the types that it takes, returns and raises, and functions of these. Of the
lower packages they import only pure ones directly: `tui.logs`, `tui.reports`, `tui.planning`, `tui.settings`,
`tui.pod` and `tui.text`. `pyproject.toml` has the contract.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.checks.check_row import CheckRow as CheckRow
    from tui.checks.grouped_rows import CheckFinding as CheckFinding
    from tui.checks.grouped_rows import Digest as Digest
    from tui.checks.grouped_rows import digest as digest
    from tui.checks.port_matrix import LEGEND as LEGEND
    from tui.checks.port_matrix import Matrix as Matrix
    from tui.cloud.credentials import NoCredentialsError as NoCredentialsError
    from tui.cloud.hosts_file import slice_name as slice_name
    from tui.operator.facade import Operator as Operator
    from tui.runs.deletion import keeper_busy_error as keeper_busy_error
    from tui.runs.failure_rules import split_last_lines as split_last_lines
    from tui.runs.launch.launch_request import LaunchRequest as LaunchRequest
    from tui.runs.launch.launch_spec import LaunchSpec as LaunchSpec
    from tui.runs.launch.phases import PHASES as PHASES
    from tui.runs.launch.phases import PhaseTimeouts as PhaseTimeouts
    from tui.runs.launch.preflight import failed_checks_error as failed_checks_error
    from tui.runs.read.latest_figures import LatestFigures as LatestFigures
    from tui.runs.read.line_reader import LineReader as LineReader
    from tui.runs.read.line_reader import LogLine as LogLine
    from tui.runs.read.line_reader import lines_since as lines_since
    from tui.runs.record.damaged_record import NoRecordError as NoRecordError
    from tui.runs.record.event_log import Event as Event
    from tui.runs.record.exit_summary import core_state_in_words as core_state_in_words
    from tui.runs.record.exit_summary import ended_with_the_others as ended_with_the_others
    from tui.runs.record.exit_summary import exit_summary as exit_summary
    from tui.runs.record.exit_summary import restart_sentences as restart_sentences
    from tui.runs.record.exit_summary import was_stopped_on_purpose as was_stopped_on_purpose
    from tui.runs.record.findings import Finding as Finding
    from tui.runs.record.keeper_file import KeeperStatus as KeeperStatus
    from tui.runs.record.keeper_file import describe_stuck_keeper as describe_stuck_keeper
    from tui.runs.record.keeper_file import describe_stuck_remedy as describe_stuck_remedy
    from tui.runs.record.run_directory import RunDirectory as RunDirectory
    from tui.runs.record.run_directory import iterate_log as iterate_log
    from tui.runs.record.run_status import RunStatus as RunStatus
    from tui.runs.record.worker_status import WorkerStatus as WorkerStatus
    from tui.runs.worker.stop import StopAnswer as StopAnswer
    from tui.ssh.errors import Reason as Reason
    from tui.ssh.errors import SshError as SshError
    from tui.ssh.exec.command import RunningCommand as RunningCommand
    from tui.ssh.fetch.fetch_files import FetchedFile as FetchedFile
    from tui.ssh.results import CommandResult as CommandResult
    from tui.ssh.results import LoginResult as LoginResult
    from tui.ssh.sync.upload import SyncResult as SyncResult

_NAMES = {
    "tui.checks.check_row": "CheckRow",
    "tui.checks.grouped_rows": "CheckFinding Digest digest",
    "tui.checks.port_matrix": "LEGEND Matrix",
    "tui.cloud.credentials": "NoCredentialsError",
    "tui.cloud.hosts_file": "slice_name",
    "tui.operator.facade": "Operator",
    "tui.runs.deletion": "keeper_busy_error",
    "tui.runs.failure_rules": "split_last_lines",
    "tui.runs.launch.launch_request": "LaunchRequest",
    "tui.runs.launch.launch_spec": "LaunchSpec",
    "tui.runs.launch.phases": "PHASES PhaseTimeouts",
    "tui.runs.launch.preflight": "failed_checks_error",
    "tui.runs.read.latest_figures": "LatestFigures",
    "tui.runs.read.line_reader": "LineReader LogLine lines_since",
    "tui.runs.record.damaged_record": "NoRecordError",
    "tui.runs.record.event_log": "Event",
    "tui.runs.record.exit_summary": "core_state_in_words ended_with_the_others exit_summary restart_sentences "
    "was_stopped_on_purpose",
    "tui.runs.record.findings": "Finding",
    "tui.runs.record.keeper_file": "KeeperStatus describe_stuck_keeper describe_stuck_remedy",
    "tui.runs.record.run_directory": "RunDirectory iterate_log",
    "tui.runs.record.run_status": "RunStatus",
    "tui.runs.record.worker_status": "WorkerStatus",
    "tui.runs.worker.stop": "StopAnswer",
    "tui.ssh.errors": "Reason SshError",
    "tui.ssh.exec.command": "RunningCommand",
    "tui.ssh.results": "CommandResult LoginResult",
    "tui.ssh.fetch.fetch_files": "FetchedFile",
    "tui.ssh.sync.upload": "SyncResult",
}
"""The exported names of each module, which is loaded when one of them is first used."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
