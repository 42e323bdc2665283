"""What is known as text: pure functions."""
