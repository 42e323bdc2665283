"""The local pod's workers: machines with an SSH server each."""
