"""The simulated bench: a drive and its meters, whose true power is known."""
