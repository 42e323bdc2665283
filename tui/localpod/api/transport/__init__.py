"""How the local Cloud TPU API is spoken: gRPC, and JSON over HTTP."""
