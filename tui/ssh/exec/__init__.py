"""Commands on a worker over SSH: run one, talk to a script, probe a port."""
