"""The names of a profile's `[thresholds]` and what each means; whoever uses one holds its default."""

from __future__ import annotations

THRESHOLDS = {
    "straggler": "lines that a core may be behind the median",
    "slow_pace": "share of the median core's rate that makes a core slow, though it keeps step",
    "slow_samples": "samples in a row for which a core has to be that slow",
    "silent": "seconds without a line of a core's own, before it counts as silent",
    "disk_free_gib": "less free room on a worker is a warning",
    "disk_full_gib": "less free room on a worker fails",
    "memory_free_share": "a smaller share of a worker's memory left is a warning",
    "load_per_cpu": "more processes wanting a CPU, for each CPU, is a warning",
    "clock_skew_seconds": "clocks further apart are a warning",
    "clock_fail_seconds": "clocks further apart fail",
    "connect_timeout": "seconds to reach a worker",
    "login_timeout": "seconds to log in to it",
    "keepalive": "seconds between two signs of life",
    "keepalive_count": "signs of life that may stay away",
    "handshakes": "logins at once",
    "sessions": "sessions at once on one connection",
    "drain_seconds": "after a first failure, for others that failed before it",
    "lost_after_seconds": "all workers out of reach so long: the run is given up as lost",
    "gone_after_seconds": "a worker out of reach so long, while others are not, is given up",
    "newer_acts_seconds": "what a newer keeper on another machine has to act on a failure",
    "answer_seconds": "for a worker's last word after a launch's lease",
    "restart_pause_seconds": "before the first restart; it doubles",
    "ask_after_seconds": "a worker out of reach so long: the API is asked why",
    "stalled_after_seconds": "a worker that wrote nothing so long is told",
    "behind_after_seconds": "a core that stayed behind so long is told",
}
