"""Differential equations along a path, solved for a whole batch."""
