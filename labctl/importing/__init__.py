"""Runs of files that people have already: a meter's CSV, and what fio printed.

Nothing here guesses silently: what was taken for what is shown, kept in the run, and can be given.
"""
