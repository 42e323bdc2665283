"""A source tree from this machine to every worker: what belongs to it, one bundle, its upload."""
