"""Records -> tables, with their tests and intervals."""
