"""Instruments that yield readings, usable without labctl.

The contract: :mod:`~instruments.reading` (what an instrument yields),
:mod:`~instruments.instrument` (how it is called) and :mod:`~instruments.errors`.

To read one: :func:`instruments.drivers.create` makes an instrument of a driver's name and its
settings; :mod:`~instruments.identify` finds what is connected; :mod:`~instruments.recording`
records what goes over a line, and replays it. To write a driver: :mod:`~instruments.driver_kit`
and :mod:`~instruments.transports`. :mod:`~instruments.simulated` is a drive with its meters.
"""
