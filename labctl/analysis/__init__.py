"""Pure functions over a record: clocks, watts, uncertainty, steady state, throttling."""
