"""Commands about the queue, the daemon and the night."""
