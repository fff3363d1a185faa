"""Commands about meters."""
