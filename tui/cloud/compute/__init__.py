"""The Compute Engine API: firewalls, project metadata, SSH keys."""
