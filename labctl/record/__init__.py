"""A run on disk, and its words: phases, header, events, journal."""
