"""The judge of labctl's numbers: runs whose true energy is known, and what labctl says of them.

It shares no code with what it judges. ``loads`` draws what a drive takes, ``meters`` and ``clocks``
show it as instruments would, ``disk`` writes the bytes of a run as docs/run-on-disk.md lays them
out, ``regimes`` and ``sick`` name the circumstances, ``scoring`` holds what ``labctl.open_run``
says against the truth. ``python -m tests.judge`` prints the table.
"""
