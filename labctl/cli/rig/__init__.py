"""Commands about rigs and plans."""
