"""Data sets by name, from raw files to training, validation and test series. One file each; importing it registers it."""

from leapcde.datasets.registry import discover

discover()
