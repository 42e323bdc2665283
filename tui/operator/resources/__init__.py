"""List the resources of a project that cost money, with their users, and delete them in the right order."""
