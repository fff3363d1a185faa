"""A run as a whole: its summary, drives, timeline and problems."""
