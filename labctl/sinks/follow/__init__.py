"""What follows a journal: cursor, clock, bins, points."""
