"""What the network's firewall rules decide about the ports that a run needs."""
