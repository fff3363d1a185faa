"""The machine that the drive is in: this one, or one behind ssh."""
