"""The drive under test: whether it may be touched, what is done to it, and what it tells."""
