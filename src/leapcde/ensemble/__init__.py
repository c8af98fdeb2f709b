"""Ensembles: several that have learned answer as one."""
