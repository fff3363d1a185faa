"""Readings on one clock: channels, phases, the host's and fio's own."""
