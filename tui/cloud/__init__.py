"""The cloud: the sources of slices (the Cloud TPU API, instance groups, a hosts file), and buckets."""
