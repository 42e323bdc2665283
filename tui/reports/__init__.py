"""Reports of runs and logs: a pure summary, and the formats that it is written in."""
