"""Figures of a training for TensorBoard."""
