"""The simulated meters, one file a family, and the process that they run in."""
