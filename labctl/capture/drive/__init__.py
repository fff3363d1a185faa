"""The drive under test: whether it may be touched, and what is done to it."""
