"""The cloud: where slices come from (the Cloud TPU API or a hosts file), and buckets."""
