"""The transports of the local Cloud TPU API: gRPC, and JSON over HTTP."""
