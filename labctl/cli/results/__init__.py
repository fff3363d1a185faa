"""Commands about runs that were recorded."""
