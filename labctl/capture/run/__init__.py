"""A run: its header, supervision, drives, and how one is resumed."""
