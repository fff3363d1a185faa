"""Statistics that know nothing of drives: uncertainty, change points, line fits."""
