"""The local pod's bucket: fake-gcs-server behind a door that only its owner passes."""
