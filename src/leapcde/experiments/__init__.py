"""Runs and what is made of them."""
