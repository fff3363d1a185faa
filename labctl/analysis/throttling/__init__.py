"""Where IOPS fell, and whether the drive throttled."""
