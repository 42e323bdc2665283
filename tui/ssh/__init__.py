"""Workers over SSH: who we log in as, whose keys we believe, one connection, a whole slice, the code they run."""
