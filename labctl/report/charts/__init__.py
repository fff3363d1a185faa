"""Charts of a run and of comparisons."""
