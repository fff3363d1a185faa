"""A rig at work: host, drive, meters, fio's phases, the run."""
