"""What simulated meters are made of: clock, probe, faults, SCPI and serial servers."""
