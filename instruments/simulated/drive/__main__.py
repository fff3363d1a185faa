"""``python -m instruments.simulated.drive``: the simulated drive as a process."""

import sys

from instruments.simulated.drive.process import main

sys.exit(main())
