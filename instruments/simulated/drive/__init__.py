"""The simulated drive: its model, its NBD server, its state and its ground truth."""
