"""Data sets larger than memory: ragged rows in plain files, mapped and not loaded."""
