"""What needs a learned path and no labels: filling holes, and finding what does not fit."""
