"""What the drive under test and its host are: parsers of each source, and ``identify`` over all."""
