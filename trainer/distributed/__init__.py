"""Ranks: started, agreeing, stopped."""
