"""The meters of a rig: acquisition, live values, calibration, ranges."""
