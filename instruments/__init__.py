"""Instruments that yield readings, usable without labctl.

The contract: :mod:`instruments.reading`, :mod:`instruments.instrument`, :mod:`instruments.errors`.
The doors: :func:`instruments.drivers.create`, :mod:`instruments.identify`,
:mod:`instruments.recording`.
"""
