"""LEAP, and everything it is compared with; one file each, and a registry."""
