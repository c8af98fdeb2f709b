"""More than one model: members of an ensemble, candidates of a race, models side by side."""
