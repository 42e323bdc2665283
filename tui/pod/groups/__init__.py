"""The creation of managed instance groups: the request, its checks, its documents and gcloud's commands."""
