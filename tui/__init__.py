"""A terminal console for training runs on Cloud TPU pods."""

__version__ = "0.1.0"
