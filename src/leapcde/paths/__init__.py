"""Observations -> a path X, and what can be done with a path."""
