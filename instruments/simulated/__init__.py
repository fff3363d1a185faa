"""The bench: a simulated drive and meters, with known truth."""
