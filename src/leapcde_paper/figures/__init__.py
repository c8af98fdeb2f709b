"""Records -> figures."""
