"""Baselines: what needs no neural network, takes seconds, and stands beside every number."""
