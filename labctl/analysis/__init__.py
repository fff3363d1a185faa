"""Pure functions, a run's record in, results out: clocks, watts, uncertainty, throttling."""
