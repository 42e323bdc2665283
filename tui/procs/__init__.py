"""Processes of this machine: liveness, environment, imports."""
