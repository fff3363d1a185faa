"""Watts of a rail and of the drive, and what their uncertainty is made of."""
