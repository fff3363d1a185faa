"""What runs in the background: shipping, and what wires runs, sinks and reports together."""
