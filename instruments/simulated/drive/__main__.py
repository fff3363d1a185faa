"""``python -m instruments.simulated.drive``: the simulated drive as a process."""

from instruments.simulated.drive.process import main

main()
