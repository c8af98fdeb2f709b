"""From a cell's settings to its record: one, many, on one machine or a cluster."""
