"""Texts and numbers from elsewhere, made safe; texts to be read. Pure."""
