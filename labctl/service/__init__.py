"""What goes on around runs: queue, daemon, locks, shipping, status, doctor."""
