"""``python -m instruments.simulated.meters``: the simulated meters as a process."""

from instruments.simulated.meters.process import main

main()
