"""``python -m instruments.simulated.meters``: the simulated meters as a process."""

import sys

from instruments.simulated.meters.process import main

sys.exit(main())
