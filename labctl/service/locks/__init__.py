"""One user a rig, and which process it is."""
