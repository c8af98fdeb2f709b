"""Times to an event, some of them cut short: bins of time, and numbers to judge by."""
