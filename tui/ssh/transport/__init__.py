"""From an address to a logged-in SSH connection: TCP, jump hosts, proxy commands, IAP, login."""
