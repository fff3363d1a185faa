"""The command line: one file a command, which imports what it needs when it is called."""
