"""Traces of I/O: read in several formats, described, and turned into a fio iolog for replay.

Everything goes by in chunks of arrays: a trace of any length takes the same memory.
"""

from labctl.trace.convert import Conversion, convert
from labctl.trace.describe import Description, describe
from labctl.trace.formats import open_trace

__all__ = ["Conversion", "Description", "convert", "describe", "open_trace"]
