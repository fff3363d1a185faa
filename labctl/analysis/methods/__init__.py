"""Analyses of standards and papers over a run's phases."""
