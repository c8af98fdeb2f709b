"""Data sets by name, from the official download to training, validation and test series. One file each."""
