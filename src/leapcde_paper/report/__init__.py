"""All of it as one page, to click through or to read."""
