"""What the console asks of Python and the terminal."""
