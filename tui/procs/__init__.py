"""Processes of this machine: liveness, signals, environment, imports."""
