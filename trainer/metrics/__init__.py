"""Write a run's figures for TensorBoard."""
