"""The network, its optimizer, its compilation."""
