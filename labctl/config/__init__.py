"""What people write: rigs, plans, sites, calibrations."""
