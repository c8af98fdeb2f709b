"""How sure answers are: calibrated probabilities, sets, intervals, and errors that grow."""
