"""Everything that happens while a run is on: meters, fio, the drive, the order of phases."""
