"""Cloud Storage: buckets and objects."""
