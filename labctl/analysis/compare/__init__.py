"""Two runs or more held against each other."""
