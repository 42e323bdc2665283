"""Keys of users and hosts: which are offered, which are trusted."""
