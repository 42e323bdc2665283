"""A pod on this machine: a Cloud TPU API service, SSH workers, a bucket, a guardian that cleans up."""
