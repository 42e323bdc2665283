"""Processes of this machine: liveness, environment, imports, garbage, the limit on open files."""
