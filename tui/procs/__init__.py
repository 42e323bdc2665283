"""Processes of this machine: liveness, signals, environment, imports, garbage, the limit on open files."""
