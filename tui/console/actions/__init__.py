"""What keys and the palette do."""
