"""Layers, vector fields, recurrent cells, heads and losses: what models are made of."""
