"""How commands print and ask: standard streams, tables, prompts, errors."""
