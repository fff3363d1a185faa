"""The command line: thin commands, each of which imports what it needs when it is called."""
