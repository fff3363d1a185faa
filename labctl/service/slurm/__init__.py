"""Slurm: the batch script of a run, and the rigs of this machine as generic resources."""
