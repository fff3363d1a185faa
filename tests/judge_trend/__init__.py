"""``labctl trend`` against series of which the truth is known."""
