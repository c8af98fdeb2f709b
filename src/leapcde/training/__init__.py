"""A model and data -> a fitted model."""
