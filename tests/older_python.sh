#!/bin/sh
# Runs what needs no torch on Python 3.10, the Python of TPU VMs, where one is found.
set -eu
python=
for candidate in "${PYTHON310:-}" python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python3.10 "$HOME"/.local/share/uv/python/cpython-3.10*/bin/python3.10; do
    if [ -n "$candidate" ] && "$candidate" -c 'import venv, sys; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "No Python 3.10 found: the run on it is left out (PYTHON310=/path/to/python3.10 names one)."
    exit 0
fi
venv=.venv-3.10
if [ ! -e $venv/.ready ] || [ pyproject.toml -nt $venv/.ready ] || [ constraints.txt -nt $venv/.ready ]; then
    "$python" -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
    touch $venv/.ready
fi

leave_out() {
    for path in "$@"; do
        [ -e "$path" ] || { echo "$0: there is no $path to leave out" >&2; exit 1; }
        options="$options --ignore $path"
    done
}
options=
# Its packages are not for this Python.
leave_out tests/trainer
# What these prove is the doing of sh on a worker, of its SSH server, of nmap and of the kernel; the Python around them runs
# in the other tests of the same packages.
leave_out tests/runs/test_worker_follow.py tests/runs/test_worker_job.py tests/runs/test_worker_launch.py \
    tests/runs/test_worker_stop.py tests/runs/test_worker_races.py tests/runs/test_worker_disk.py \
    tests/runs/test_worker_removed.py tests/runs/test_worker_marks.py tests/runs/test_removed_over_ssh.py \
    tests/runs/test_shells.py \
    tests/checks/test_ports_in_namespaces.py \
    tests/runs/test_few_sessions.py tests/localpod/test_guardian.py tests/cli/test_file_limit.py
# Firewall rules are decided by arithmetic, slices are taken away by the API, slow links are sshd's and a proxy's; a served
# console is the console of tests/console behind a library of its own.
leave_out tests/checks/test_firewall.py tests/runs/test_taken_away.py tests/cli/test_serve.py
# Whose host keys are believed is OpenSSH's files and asyncssh's reading of them, the configuration `ssh -G`'s, who is let in
# sshd's. tests/ssh/test_fleet, test_client_keys and test_upload log in on this Python: known, unknown, by jump hosts, again.
leave_out tests/ssh/test_known_hosts.py tests/ssh/test_openssh_config.py tests/ssh/test_max_startups.py tests/ssh/test_login.py \
    tests/ssh/test_tcp.py
# Two homes are two machines in tests/runs/test_discover too, and tests/cli/test_local_pod looks for a secret everywhere.
leave_out tests/cli/test_two_machines.py tests/cli/test_secrets.py
# Launches that fail, what follows an end, keys and lists of hosts: tests/runs/test_over_ssh and test_ends, tests/ssh/test_client_keys
# and tests/cli/test_exec come by the same modules; odd words and surroundings by those of test_parsing.
leave_out tests/runs/test_launch_failures.py tests/runs/test_on_end.py tests/runs/test_faults.py tests/cli/test_keys.py \
    tests/cli/test_hosts_file.py tests/cli/test_odd_arguments.py tests/cli/test_odd_surroundings.py
# A keeper's machine that dies or comes back late is the doing of files and signals: test_discover and test_ends come by it.
leave_out tests/runs/test_behind.py tests/runs/test_client_faults.py tests/runs/test_shutdown.py
# tests/cli/test_local_pod goes the whole way, most commands in processes of this Python. Beside it these show refusals of
# Google's libraries and of the checks, which tests/cloud and tests/checks have, and lists and exports of runs and logs.
leave_out tests/cli/test_bad_input.py tests/cli/test_launch_checks.py tests/cli/test_runs_listed.py \
    tests/cli/test_exports.py tests/checks/test_command.py
# A local pod stands in for TPU VMs on the machine of a person who tries it. tests/cli/test_local_pod runs one on this Python
# as well, and its API, store, sessions and rehearsal with it.
leave_out tests/localpod/test_pod.py tests/localpod/test_api_errors.py tests/localpod/test_api_faults.py \
    tests/localpod/test_api_gcloud.py tests/localpod/test_api_lists.py tests/localpod/test_api_nodes.py \
    tests/localpod/test_api_operations.py tests/localpod/test_api_queued_resources.py tests/localpod/test_api_rest.py \
    tests/localpod/test_api_server.py tests/localpod/test_bucket.py tests/localpod/test_keeper_sweep.py \
    tests/localpod/test_owner_only.py tests/localpod/test_request_gate.py tests/localpod/test_socket_owner.py \
    tests/localpod/test_rehearsal.py tests/localpod/test_ssh_session.py
# Screens are drawn by test_snapshots, with what texts and sizes they have, and driven by test_pod_screen.
leave_out tests/console/test_keys.py tests/console/test_run_screen.py tests/console/test_dialogs.py \
    tests/console/test_tiny_screens.py tests/console/test_safe_text.py tests/console/test_exec_dialog.py \
    tests/console/test_export.py tests/console/test_suspend.py tests/console/test_freshness.py \
    tests/console/test_steady_painting.py tests/console/test_log_pane.py
# Patterns are the one thing of the logs that Pythons differ in. test_dialects has lines of every dialect, test_carriers of
# every launcher, test_demux cuts bytes into samples; the tables of public logs and the other ways to read bring no other.
leave_out tests/logs/test_public_shapes.py tests/logs/test_match_cache.py tests/logs/test_saved_log.py tests/logs/test_block_reader.py \
    tests/logs/test_summary_cache.py tests/logs/test_line_filter.py tests/logs/test_pod_curves.py tests/cli/test_saved_logs.py
echo "On $($venv/bin/python --version):"
# shellcheck disable=SC2086
exec $venv/bin/python -m pytest -q -p no:cacheprovider $options "$@"
