"""Sending a source tree to every worker: which files belong to it, one bundle, its upload."""
