"""What happened in a run, written to be read: a pure summary, and the formats it is written in."""
