"""The Cloud TPU API of a pod on this machine: gRPC and REST over one state, for the real clients."""
