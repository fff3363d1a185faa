"""Comparison of two or more runs."""
