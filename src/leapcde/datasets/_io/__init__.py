"""Files of data sets: downloads, archives, formats, and the cache of what was read."""
