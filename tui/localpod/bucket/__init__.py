"""The local pod's bucket: fake-gcs-server behind a proxy that admits only the pod's owner."""
