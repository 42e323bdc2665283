"""The keeper: the background process that launches a run, mirrors it and acts on its policies."""
