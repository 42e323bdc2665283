"""What is trained: the network, its optimizer, its compilation."""
