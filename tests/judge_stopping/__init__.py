"""Whether phases that end by themselves end with numbers that hold, and how soon."""
