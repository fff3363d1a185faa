"""Traces of I/O: read in several formats, described, and turned into a fio iolog for replay.

Everything goes by in chunks of arrays: a trace of any length takes the same memory.
"""
