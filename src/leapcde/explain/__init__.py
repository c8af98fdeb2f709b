"""What the model looked at, as arrays, pictures and a page."""
