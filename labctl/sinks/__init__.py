"""Sinks: followers of a run's journal that send it somewhere.

A sink never holds up a run and loses nothing: it reads what is on disk, from a durable cursor,
while the run is on or after it. Sending anything twice changes nothing.
"""
