"""labctl: the watts of an SSD at each queue depth, on each rail, and when it throttles."""
