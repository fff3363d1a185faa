"""The state of rigs, here and at a broker, and of the night."""
