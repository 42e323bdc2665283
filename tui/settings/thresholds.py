"""The names of a profile's `[thresholds]` with their meanings; defaults are where each is used."""

from __future__ import annotations

THRESHOLDS = {
    "straggler": "lines that a core may be behind the median core",
    "slow_pace": "share of the median core's rate below which a core is slow",
    "slow_samples": "samples in a row that must be that slow",
    "silent": "seconds without a line after which a core is silent",
    "disk_free_gib": "GiB of free disk space on a worker below which there is a warning",
    "disk_full_gib": "GiB of free disk space on a worker below which the check fails",
    "memory_free_share": "share of free memory on a worker below which there is a warning",
    "load_per_cpu": "load per CPU above which there is a warning",
    "clock_skew_seconds": "seconds between clocks above which there is a warning",
    "clock_fail_seconds": "seconds between clocks above which the check fails",
    "connect_timeout": "seconds to connect to a worker",
    "login_timeout": "seconds to log in to a worker",
    "keepalive": "seconds between two keep-alive messages",
    "keepalive_count": "keep-alive messages that may stay unanswered",
    "handshakes": "logins at the same time",
    "sessions": "sessions at the same time on one connection",
    "drain_seconds": "seconds to wait after a first failure for earlier ones of other workers",
    "lost_after_seconds": "seconds without any worker after which a run is given up as lost",
    "gone_after_seconds": "seconds after which a single unreachable worker is given up",
    "newer_acts_seconds": "seconds for a newer keeper on another machine to act on a failure",
    "answer_seconds": "seconds for a worker's answer after a launch's lease",
    "restart_pause_seconds": "seconds before the first restart; doubled for each further one",
    "ask_after_seconds": "seconds without a worker after which the API is asked for the reason",
    "stalled_after_seconds": "seconds without output after which a worker is reported",
    "behind_after_seconds": "seconds behind the others after which a core is reported",
}
