"""The Compute Engine API: groups, disks, images, firewalls, metadata and SSH keys; and the OS Login API."""
